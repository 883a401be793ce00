//! Tests the live page of `lockstep dev` in a real browser.

use std::io::Write as _;
use std::path::Path;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Config};
use lockstep_crds::namespaceclass::NamespaceClass;
use lockstep_tests::browser::Browser;
use lockstep_tests::dev::Dev;
use lockstep_tests::program::program;
use serde_json::{Value, json};

const CLASS: &str = "namespaceclass/NamespaceClass.namespaceclass.akuity.io//restricted";
const NAMESPACE: &str = "namespaceclass/Namespace//shop";
const BINDING: &str = "namespaceclass/NamespaceClassBinding.namespaceclass.akuity.io/shop/shop";

/// A text that changes the page if it is read as HTML.
const HOSTILE: &str = "<img src=x onerror=document.title='changed'>";

/// Starts a browser. Without one, it prints a line on standard error and returns `None`.
fn browser() -> anyhow::Result<Option<Browser>> {
    let browser = Browser::start()?;
    if browser.is_none() {
        // Not the macro: its output is captured for tests that pass.
        writeln!(std::io::stderr(), "SKIPPED: no chromium on the PATH; the live page is not tested")?;
    }
    Ok(browser)
}

/// Returns the expression that the row of an object contains a text.
fn row(path: &str, text: &str) -> String {
    format!("document.querySelector('tr[data-path=\"{path}\"]')?.innerText.includes(\"{text}\")")
}

/// Returns the expression that an element contains a text.
fn shows(id: &str, text: &str) -> String {
    format!("document.getElementById('{id}').innerText.includes(\"{text}\")")
}

/// Selects the object of a row.
fn select(browser: &mut Browser, path: &str) -> anyhow::Result<()> {
    browser.evaluate(&format!("document.querySelector('tr[data-path=\"{path}\"] a').click()"))?;
    Ok(())
}

async fn label(client: &Client, class: &str) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let patch = json!({"metadata": {"labels": {"namespaceclass.akuity.io/name": class}}});
    namespaces.patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn set_resources(client: &Client, resources: &Value) -> anyhow::Result<()> {
    let classes: Api<NamespaceClass> = Api::all(client.clone());
    let patch = json!({"spec": {"resources": resources}});
    classes.patch("restricted", &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_a_class_that_is_switched_broken_and_repaired() -> anyhow::Result<()> {
    let Some(mut browser) = browser()? else { return Ok(()) };
    let dev = Dev::start(&program()?, "namespaceclass")?;
    let client = Client::try_from(Config::new(dev.api.parse()?))?;
    browser.open_url(&dev.page)?;
    browser.wait_for(&row(BINDING, "True"))?;
    browser.wait_for(&row(NAMESPACE, "class web"))?;

    label(&client, "restricted").await?;
    browser.wait_for(&row(NAMESPACE, "class restricted"))?;
    browser.wait_for(&row(BINDING, "class restricted"))?;

    select(&mut browser, CLASS)?;
    browser.wait_for(&shows("detail", "Valid True AllResourcesValid"))?;
    browser.wait_for(&shows("detail", "named by Namespace shop"))?;
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    let hostile = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": HOSTILE}});
    set_resources(&client, &json!([gadget, hostile])).await?;
    browser.wait_for(&row(CLASS, "False InvalidResources"))?;
    browser.wait_for(&shows("detail", "discover example.com/v1: kind_not_served"))?;
    browser.wait_for(&shows("decisions", "Valid=False InvalidResources"))?;
    browser.wait_for(&shows("timeline", "discover example.com/v1"))?;
    select(&mut browser, BINDING)?;
    for place in ["detail", "decisions", "timeline"] {
        browser.wait_for(&shows(place, HOSTILE))?;
    }
    assert_eq!(browser.evaluate("document.title")?, "Lockstep", "a text of an object is no HTML");
    assert_eq!(browser.evaluate("document.querySelectorAll('img').length")?, 0);

    select(&mut browser, CLASS)?;
    set_resources(&client, &json!([])).await?;
    browser.wait_for(&row(CLASS, "True AllResourcesValid"))?;
    browser.wait_for(&shows("detail", "Valid True AllResourcesValid"))?;
    assert_eq!(browser.complaints()?, [] as [Value; 0]);
    pictures(&mut browser)
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_and_the_keyboard_lead_to_an_object() -> anyhow::Result<()> {
    let Some(mut browser) = browser()? else { return Ok(()) };
    let dev = Dev::start(&program()?, "namespaceclass")?;
    browser.open_url(&dev.page)?;
    browser.wait_for(&row(BINDING, "True"))?;
    browser.evaluate("document.getElementById('filter').focus()")?;
    browser.type_in("namespaceclassbinding. shop")?;
    let rows = "document.querySelectorAll('#object-rows tr').length";
    browser.wait_for(&format!("{rows} === 1"))?;
    browser.evaluate("document.querySelector('#object-rows a').focus()")?;
    browser.evaluate("document.activeElement.click()")?;
    browser.wait_for("document.activeElement.id === 'detail-title'")?;
    browser.wait_for(&shows("detail", "Ready True ResourcesApplied"))?;
    assert!(browser.evaluate("location.hash")?.as_str().is_some_and(|hash| hash.ends_with("/shop/shop")));
    // The link opens the same object in a new page.
    let hash = browser.evaluate("location.hash")?;
    browser.open_url("about:blank")?;
    browser.open_url(&format!("{}{}", dev.page, hash.as_str().unwrap_or_default()))?;
    browser.wait_for(&shows("detail", "Ready True ResourcesApplied"))?;
    assert_eq!(browser.complaints()?, [] as [Value; 0]);
    Ok(())
}

/// Writes a picture for each width and for both colours, and checks that nothing is wider than the window.
fn pictures(browser: &mut Browser) -> anyhow::Result<()> {
    for (width, height) in [(390, 844), (820, 1180), (1440, 900)] {
        for (dark, colours) in [(false, "light"), (true, "dark")] {
            browser.show_as(width, height, dark)?;
            let wide = browser.evaluate("document.documentElement.scrollWidth")?;
            ensure!(wide.as_u64() <= Some(width.into()), "the page is {wide} wide in a window of {width}");
            let file =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-page-{width}-{colours}.png"));
            std::fs::write(file, browser.screenshot()?)?;
        }
    }
    Ok(())
}

//! Rows of claims and volumes.

use serde_json::Value;

use super::format::or_none;
use super::row::{Cells, Row, row};
use crate::builtin::view::{flag, given, list, part, text};

impl Row<'_> {
    pub(super) fn claim(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let bound = !text(spec, "volumeName").is_empty();
        let capacity = part(status, "capacity").get("storage").and_then(Value::as_str).unwrap_or("0");
        let capacity = if bound { capacity } else { "" };
        let modes = if bound { access_modes(list(status, "accessModes")) } else { String::new() };
        let phase = if self.is_deleted() { "Terminating" } else { text(status, "phase") };
        row![
            name,
            phase,
            text(spec, "volumeName"),
            capacity,
            modes,
            text(spec, "storageClassName"),
            unset(spec, "volumeAttributesClassName"),
            self.age,
            unset(spec, "volumeMode"),
        ]
    }

    pub(super) fn volume(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let claim = given(spec, "claimRef")
            .map(|claim| format!("{}/{}", text(claim, "namespace"), text(claim, "name")));
        let capacity = part(spec, "capacity").get("storage").and_then(Value::as_str).unwrap_or("0");
        let phase = if self.is_deleted() { "Terminating" } else { text(status, "phase") };
        row![
            name,
            capacity,
            access_modes(list(spec, "accessModes")),
            text(spec, "persistentVolumeReclaimPolicy"),
            phase,
            claim.unwrap_or_default(),
            text(spec, "storageClassName"),
            unset(spec, "volumeAttributesClassName"),
            text(status, "reason"),
            self.age,
            unset(spec, "volumeMode"),
        ]
    }
}

impl Row<'_> {
    pub(super) fn driver(self) -> Cells {
        let Self { spec, name, .. } = self;
        let texts = |field: &str, of: fn(&Value) -> &str| {
            list(spec, field).iter().map(of).collect::<Vec<_>>().join(",")
        };
        let modes = texts("volumeLifecycleModes", |mode| mode.as_str().unwrap_or_default());
        let audiences = texts("tokenRequests", |request| text(request, "audience"));
        let tokens = if given(spec, "tokenRequests").is_some() { &audiences } else { "<unset>" };
        row![
            name,
            part(spec, "attachRequired") != false,
            flag(spec, "podInfoOnMount"),
            flag(spec, "storageCapacity"),
            tokens,
            flag(spec, "requiresRepublish"),
            or_none(&modes),
            self.age,
        ]
    }

    pub(super) fn attachment(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let volume = text(part(spec, "source"), "persistentVolumeName");
        row![name, text(spec, "attacher"), volume, text(spec, "nodeName"), flag(status, "attached"), self.age]
    }
}

fn unset(value: &Value, field: &str) -> String {
    given(value, field).and_then(Value::as_str).unwrap_or("<unset>").to_owned()
}

fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown =
        short.iter().filter(|(mode, _)| modes.iter().any(|given| given == mode)).map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",")
}

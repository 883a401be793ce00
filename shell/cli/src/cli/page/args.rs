//! The flag for the live page.

use std::net::Ipv4Addr;

use lockstep_runtime::address::{Address, ParseAddressError};

// The flag of every command that serves the page. A doc comment would become the help text of these commands.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PageArgs {
    /// Where the live page is served, which shows the controllers at work; :PORT is on this machine only, 0 disables it
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "0",
        value_parser = status_address,
        env = "LOCKSTEP_STATUS_BIND_ADDRESS"
    )]
    pub(in crate::cli) status_bind_address: Address,
}

/// Parses the address of the live page. It shows the objects of the whole cluster without a login, so other machines can reach it
/// only if the address names an interface.
fn status_address(text: &str) -> Result<Address, ParseAddressError> {
    Ok(match text.parse()? {
        Address::Everywhere(port) => Address::At { host: Ipv4Addr::LOCALHOST.to_string(), port },
        address => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_page_is_on_this_machine_unless_an_interface_is_named() {
        let at = |host: &str| Ok(Address::At { host: host.to_owned(), port: 8082 });
        assert_eq!(status_address(":8082"), at("127.0.0.1"));
        assert_eq!(status_address("192.0.2.1:8082"), at("192.0.2.1"));
        assert_eq!(status_address("0"), Ok(Address::Off));
        assert_eq!(status_address("8082"), Err(ParseAddressError));
    }
}

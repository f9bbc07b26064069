//! The signatures in the code are those of the interface definition: a component
//! with every type of `wit/driver.wit` is admitted and links.

use halofy_cartridge::LoadError;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};

use crate::memory_view::host;

#[test]
fn the_signatures_are_those_of_the_interface_definition() {
    let mut resolve = wit_parser::Resolve::default();
    let wit = include_str!("../../../../wit/driver.wit");
    let package = resolve.push_str("driver.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("driver")).unwrap();
    let mangling = wit_parser::ManglingAndAbi::Standard32;
    let mut module = dummy_module(&resolve, world, mangling);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    let mut encoder = ComponentEncoder::default();
    let component = encoder
        .module(&module)
        .unwrap()
        .validate(true)
        .encode()
        .unwrap();
    let loaded = host().load(&component, "dummy");
    assert!(
        !matches!(loaded, Err(LoadError::Refused { .. })),
        "{loaded:?}"
    );
    loaded.unwrap();
}

//! A bundle of version 2. It must stay readable.

use std::fs;

use format_fixtures::{Form, fixtures, unread_fields};
use pretty_assertions::assert_eq;

use crate::session_copy::test_sessions::*;
use crate::session_copy::{BundleHeader, BundleReader, Imported, import};

#[test]
fn the_header_of_a_bundle_is_read_completely() {
    let bytes = fixtures("v1/exports/tidy.session")[0].bytes();
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap();
    let header = String::from_utf8(header.to_vec()).unwrap();
    let read: BundleHeader = serde_json::from_str(&header).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), header);
    let tell =
        |text: &str| serde_json::from_str::<BundleHeader>(text).ok().map(|it| format!("{it:?}"));
    let unread = unread_fields(Form::Json, [header], tell);
    assert!(unread.is_empty(), "{unread:#?}");
}

#[test]
fn a_bundle_is_imported_completely() {
    let chats = Chats::new();
    let fixture = fixtures("v1/exports/tidy.session").remove(0);
    let copy = chats.path().with_file_name("bundle");
    fs::write(&copy, fixture.bytes()).unwrap();
    let mut bundle = BundleReader::open(&copy).unwrap();
    let header = bundle.header().clone();
    let imported = import(&mut bundle, &chats.new_session(&header.session)).unwrap();
    let Imported::Placed { n_blobs, .. } = imported else { panic!("{imported:?}") };
    assert_eq!(n_blobs, header.n_blobs);
    let talk = chats.read(&header.session);
    assert_eq!(talk.messages.len(), 16);
    assert_eq!(talk.damage, []);
}

use super::*;

#[test]
fn the_nearest_word_is_suggested_if_one_is_near() {
    let known = ["mode", "model", "print"];
    assert_eq!(did_you_mean("pirnt", known), "; did you mean `print`?");
    assert_eq!(did_you_mean("modl", known), "; did you mean `mode`?");
    assert_eq!(did_you_mean("xyzzy", known), "");
    assert_eq!(did_you_mean("ls", ["rm"]), "");
}

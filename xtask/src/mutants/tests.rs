//! What is found in a text, and what the woven text looks like.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use super::find::places;
use super::weave::{Mutant, Weaver};

fn woven(text: &str, excluded: &[usize]) -> (String, Vec<Mutant>) {
    let excluded = excluded.iter().copied().collect();
    let mut weaver = Weaver::new("a.rs", text, places(text).unwrap(), 1, &excluded);
    (weaver.weave(), weaver.mutants)
}

fn about(text: &str) -> Vec<String> {
    woven(text, &[]).1.into_iter().map(|mutant| mutant.about).collect()
}

#[test]
fn a_comparison_has_a_switch_for_each_other_operator() {
    let (text, mutants) = woven("fn f(a: T) -> T {\n    a < b\n}", &[]);
    assert_eq!(
        text,
        "fn f(a: T) -> T {\n    (if crate::is_mutant(1) {a <= b} else if crate::is_mutant(2) {a > b} else {a < b})\n}"
    );
    assert_eq!((mutants[0].lines.clone(), mutants[0].number), (2..3, 1));
    assert_eq!(woven("fn f(a: T) -> T {\n    a < b\n}", &[1]).0.matches("is_mutant").count(), 1);
}

#[test]
fn what_is_inside_a_mutant_is_mutated_too_and_lines_stay() {
    let text = "fn f() -> T { g(a == b\n    || c != d) }";
    let (woven, mutants) = woven(text, &[]);
    assert_eq!(mutants.len(), 3);
    assert_eq!(woven.lines().count(), text.lines().count());
    syn::parse_file(&woven).unwrap();
}

#[test]
fn bodies_guards_and_arms_are_mutated() {
    assert_eq!(about("fn f() -> bool { g() }"), ["f: returns `true`", "f: returns `false`"]);
    assert_eq!(about("fn f() -> Result<(), E> { g() }"), ["f: returns `Ok(())`"]);
    assert_eq!(about("fn f() -> T { match x { 1 => a, n if n.odd() => b, _ => c } }").len(), 3);
    assert_eq!(
        about("fn f() -> T { match x { A => a, B => b } }"),
        Vec::<String>::new(),
        "no wildcard is left"
    );
}

#[test]
fn tests_constants_and_conditions_with_let_are_left_alone() {
    assert_eq!(about("const N: usize = 1 + 2;"), Vec::<String>::new());
    assert_eq!(about("#[cfg(test)]\nmod tests { fn f() -> bool { a == b } }"), Vec::<String>::new());
    assert_eq!(about("#[tokio::test]\nasync fn f() { g(a == b); }"), Vec::<String>::new());
    assert_eq!(about("fn f() -> T { if let A = b && c { d } else { e } }"), Vec::<String>::new());
}

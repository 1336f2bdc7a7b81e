//! The checks, one file per rule or family of rules.

mod dependencies;
mod docs;
mod fixtures;
mod foreign_places;
mod gateway;
mod links;
mod manifests;
mod sans_io;
mod select;
mod sizes;
mod unfinished;
mod wording;

use crate::tidy::finding::Finding;
use crate::tidy::model::Model;

/// Checks the model and appends findings.
pub(crate) type Check = fn(&Model, &mut Vec<Finding>);

/// Every check, in the order of the report.
pub(crate) const ALL: &[Check] = &[
    dependencies::direction,
    dependencies::forbidden,
    dependencies::untyped_errors,
    sans_io::check,
    select::check,
    gateway::check,
    manifests::names,
    manifests::published,
    manifests::inherited,
    manifests::default_features,
    sizes::check,
    docs::check,
    links::check,
    links::contents,
    foreign_places::check,
    unfinished::check,
    wording::check,
    fixtures::check,
];

/// Returns the findings of one check in a model.
#[cfg(test)]
pub(crate) fn found(check: Check, model: &Model) -> Vec<String> {
    let mut findings = Vec::new();
    check(model, &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

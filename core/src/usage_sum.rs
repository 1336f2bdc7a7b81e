//! The sum of the token usage of a run or turn, by agent, provider and model.
//!
//! Reports of different responses are added; within one response a later report can replace an earlier one.

use crate::id::ResponseId;
use crate::run::Usage;
use crate::source::Source;
use crate::update::Mode;

/// Usage of one agent for one provider and model.
#[derive(Debug)]
struct Account {
    source: Source,
    /// The sum of completed responses.
    settled: Usage,
    /// The current response. A later report can replace an earlier one within it.
    response: Option<ResponseId>,
    current: Usage,
}

/// The accounts in the order of their first report.
#[derive(Debug, Default)]
pub(crate) struct UsageSum {
    accounts: Vec<Account>,
}

impl UsageSum {
    /// Adds a report to the earlier ones, or replaces the last one of the same response. Returns `false` if the report needs
    /// an account more than `max`.
    pub(crate) fn book(
        &mut self,
        source: &Source,
        response: Option<&ResponseId>,
        mode: Mode,
        usage: &Usage,
        max: usize,
    ) -> bool {
        let known = self.accounts.iter_mut().find(|a| a.source == *source && a.current.same_account(usage));
        let Some(account) = known else {
            if self.accounts.len() >= max {
                return false;
            }
            self.accounts.push(Account {
                source: source.clone(),
                settled: Usage::default(),
                response: response.cloned(),
                current: usage.clone(),
            });
            return true;
        };
        if mode == Mode::Append {
            account.current.add(usage);
        } else {
            if account.response.as_ref() != response {
                account.settled.add(&account.current);
                account.response = response.cloned();
            }
            account.current = usage.clone();
        }
        true
    }

    /// Returns the sum by provider and model.
    pub(crate) fn totals(&self) -> Vec<Usage> {
        let mut totals: Vec<Usage> = Vec::new();
        for account in &self.accounts {
            let mut sum = account.current.clone();
            sum.add(&account.settled);
            match totals.iter_mut().find(|total| total.same_account(&sum)) {
                Some(total) => total.add(&sum),
                None => totals.push(sum),
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64) -> Usage {
        Usage { input: Some(input), ..Usage::default() }
    }

    fn book(sum: &mut UsageSum, response: &str, mode: Mode, input: u64) {
        assert!(sum.book(&Source::root(), Some(&ResponseId::from(response)), mode, &tokens(input), 8));
    }

    #[test]
    fn a_replacing_report_counts_once_per_response() {
        let mut sum = UsageSum::default();
        book(&mut sum, "r1", Mode::Replace, 5);
        book(&mut sum, "r1", Mode::Replace, 7);
        book(&mut sum, "r2", Mode::Replace, 10);
        assert_eq!(sum.totals(), [tokens(17)]);
    }

    #[test]
    fn appended_reports_add_up() {
        let mut sum = UsageSum::default();
        book(&mut sum, "r1", Mode::Append, 5);
        book(&mut sum, "r1", Mode::Append, 7);
        assert_eq!(sum.totals(), [tokens(12)]);
    }

    #[test]
    fn too_many_accounts_are_refused() {
        let mut sum = UsageSum::default();
        let other = Usage { model: Some("m".into()), ..Usage::default() };
        assert!(sum.book(&Source::root(), None, Mode::Append, &tokens(1), 1));
        assert!(!sum.book(&Source::root(), None, Mode::Append, &other, 1));
    }
}

//! What a run owes at its end: the sum of its usage, and the interrupts that wait for an answer.

use super::error::StreamError;
use super::outlet::Outlet;
use crate::event::PendingInterrupt;
use crate::id::ResponseId;
use crate::run::Usage;
use crate::source::Source;
use crate::update::Mode;

/// Usage of one agent for one provider and model.
#[derive(Debug)]
struct Account {
    source: Source,
    /// Responses that are over.
    settled: Usage,
    /// The response that reports now: a later report may take the place of an earlier one.
    response: Option<ResponseId>,
    current: Usage,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    interrupts: Vec<PendingInterrupt>,
}

impl Ledger {
    /// Books a report: on top of what was reported, or in its place within one response.
    pub(super) fn book(
        &mut self,
        source: &Source,
        response: Option<&ResponseId>,
        mode: Mode,
        usage: &Usage,
        max: usize,
    ) -> Result<(), StreamError> {
        let known = self.accounts.iter_mut().find(|a| a.source == *source && a.current.same_account(usage));
        let Some(account) = known else {
            Outlet::check(self.accounts.len() + 1, max, "usage_accounts", "usage accounts", source.path())?;
            self.accounts.push(Account {
                source: source.clone(),
                settled: Usage::default(),
                response: response.map(ResponseId::detached),
                current: usage.clone(),
            });
            return Ok(());
        };
        if mode == Mode::Append {
            account.current.add(usage);
        } else {
            if account.response.as_ref() != response {
                account.settled.add(&account.current);
                account.response = response.map(ResponseId::detached);
            }
            account.current = usage.clone();
        }
        Ok(())
    }

    /// The sum by provider and model, in the order of first report.
    pub(super) fn totals(&self) -> Vec<Usage> {
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

    /// Notes an interrupt. False if it is known already, word for word.
    pub(super) fn await_reply(&mut self, pending: PendingInterrupt, max: usize) -> Result<bool, StreamError> {
        if let Some(known) = self.interrupts.iter_mut().find(|k| k.interrupt.id == pending.interrupt.id) {
            let is_new = known.interrupt != pending.interrupt;
            *known = pending;
            return Ok(is_new);
        }
        let count = self.interrupts.len() + 1;
        Outlet::check(count, max, "interrupts", "pending interrupts", pending.lane.source.path())?;
        self.interrupts.push(pending);
        Ok(true)
    }

    pub(super) fn take_interrupts(&mut self) -> Vec<PendingInterrupt> {
        std::mem::take(&mut self.interrupts)
    }

    pub(super) fn has_interrupts(&self) -> bool {
        !self.interrupts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64) -> Usage {
        Usage { input: Some(input), ..Usage::default() }
    }

    fn book(ledger: &mut Ledger, response: &str, mode: Mode, input: u64) {
        let response = ResponseId::from(response);
        ledger.book(&Source::root(), Some(&response), mode, &tokens(input), 8).unwrap();
    }

    #[test]
    fn a_replacing_report_counts_once_per_response() {
        let mut ledger = Ledger::default();
        book(&mut ledger, "r1", Mode::Replace, 5);
        book(&mut ledger, "r1", Mode::Replace, 7);
        book(&mut ledger, "r2", Mode::Replace, 10);
        assert_eq!(ledger.totals(), [tokens(17)]);
    }

    #[test]
    fn appended_reports_add_up() {
        let mut ledger = Ledger::default();
        book(&mut ledger, "r1", Mode::Append, 5);
        book(&mut ledger, "r1", Mode::Append, 7);
        assert_eq!(ledger.totals(), [tokens(12)]);
    }

    #[test]
    fn too_many_accounts_are_refused() {
        let mut ledger = Ledger::default();
        let other = Usage { model: Some("m".into()), ..Usage::default() };
        ledger.book(&Source::root(), None, Mode::Append, &tokens(1), 1).unwrap();
        let error = ledger.book(&Source::root(), None, Mode::Append, &other, 1).unwrap_err();
        assert!(error.to_string().contains("usage_accounts"), "{error}");
    }
}

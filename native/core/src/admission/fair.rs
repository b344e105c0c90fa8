//! What each key has had of an instance: start-time fair queueing (Goyal, Vin, Cheng 1996) with tokens as cost.
use std::collections::HashMap;

/// Virtual time of a token at weight 1; weights are whole numbers up to a thousand.
const UNIT: u64 = 1 << 10;

/// Whose a request is, and what it is expected to cost, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// A number that stands for the key; 0 where there are no keys.
    pub key: u32,
    /// At least 1.
    pub weight: u32,
    /// Tokens.
    pub cost: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self { key: 0, weight: 1, cost: 1 }
    }
}

#[derive(Debug, Default)]
struct Account {
    weight: u32,
    /// Virtual time up to which the key has had its share.
    spent: u64,
    waiting: usize,
    running: usize,
}

/// The keys that use an instance now.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    accounts: HashMap<u32, Account>,
    /// Virtual time: where the key was that had the last turn.
    now: u64,
}

impl Accounts {
    /// A request comes. A key that had nothing to ask for meanwhile saved nothing up. Answers the key's virtual time, which
    /// changes only for a key of whom nobody waits.
    pub fn arrive(&mut self, share: Share) -> u64 {
        let account = self.accounts.entry(share.key).or_default();
        account.weight = share.weight.max(1);
        if account.waiting == 0 {
            account.spent = account.spent.max(self.now);
        }
        account.waiting += 1;
        account.spent
    }

    /// One of those who wait gave up.
    pub fn give_up(&mut self, key: u32) {
        if let Some(account) = self.accounts.get_mut(&key) {
            account.waiting = account.waiting.saturating_sub(1);
        }
        self.forget_idle(key);
    }

    /// A request that arrived has a place; the key pays what it is expected to cost. Answers the key's virtual time.
    pub fn begin(&mut self, share: Share) -> u64 {
        let account = self.accounts.entry(share.key).or_default();
        self.now = self.now.max(account.spent);
        account.waiting = account.waiting.saturating_sub(1);
        account.running += 1;
        account.spent = account.spent.saturating_add(charge(share.cost, share.weight));
        account.spent
    }

    /// It turned out to cost `used`. Answers the key's virtual time.
    pub fn settle(&mut self, share: Share, used: Option<u64>) -> u64 {
        let Some(account) = self.accounts.get_mut(&share.key) else { return 0 };
        if let Some(used) = used {
            let (paid, owed) = (charge(share.cost, share.weight), charge(used, share.weight));
            account.spent = account.spent.saturating_sub(paid).saturating_add(owed);
        }
        account.spent
    }

    /// One of those who run is over.
    pub fn finish(&mut self, key: u32) {
        if let Some(account) = self.accounts.get_mut(&key) {
            account.running = account.running.saturating_sub(1);
        }
        self.forget_idle(key);
    }

    /// The key's virtual time.
    pub fn spent(&self, key: u32) -> u64 {
        self.accounts.get(&key).map_or(0, |account| account.spent)
    }

    /// The key's weight.
    pub fn weight(&self, key: u32) -> usize {
        self.accounts.get(&key).map_or(1, |account| account.weight.max(1) as usize)
    }

    /// A key that is ahead of the others is remembered while they catch up, or it would be forgiven by leaving for a moment.
    fn forget_idle(&mut self, key: u32) {
        let now = self.now;
        if self.accounts.len() > MOST_REMEMBERED {
            self.accounts.retain(|_, one| one.waiting + one.running > 0 || one.spent > now);
        } else if self.accounts.get(&key).is_some_and(|one| one.waiting + one.running == 0 && one.spent <= now) {
            self.accounts.remove(&key);
        }
    }
}

const MOST_REMEMBERED: usize = 1024;

fn charge(cost: u64, weight: u32) -> u64 {
    cost.max(1).saturating_mul(UNIT) / u64::from(weight.max(1))
}

//! Those of one priority class who wait.
use super::fair::{Accounts, Share};
use super::queue::{Lane, Ticket};
use std::collections::{BTreeSet, HashMap};

/// How often others go before somebody who came earlier and stands in a later lane, or who named no deadline.
const PATIENCE: u32 = 16;

/// One who waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// The client named the deadline.
    pub urgent: bool,
    pub lane: Lane,
    pub deadline_ns: u64,
    pub ticket: Ticket,
}

impl Mark {
    const fn order(self) -> (u64, Ticket) {
        (self.deadline_ns, self.ticket)
    }
}

type List = BTreeSet<(u64, Ticket)>;

/// The requests of one key, by lane.
#[derive(Debug, Default)]
struct Own {
    lanes: [List; 3],
    /// How often an earlier lane went first since a later one had a turn.
    passed: u32,
}

#[derive(Debug, Default)]
pub(super) struct Room {
    /// Those with deadlines of their own: the short ones, and the long ones.
    urgent: [List; 2],
    /// Keys of whom others wait, by what they have had.
    order: BTreeSet<(u64, u32)>,
    own: HashMap<u32, Own>,
    /// How often a named deadline went first since another had a turn.
    passed: u32,
    short: usize,
    len: usize,
}

impl Room {
    /// All who wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Those of them who are not long.
    pub const fn short(&self) -> usize {
        self.short
    }

    /// `spent` is what the key has had.
    pub fn add(&mut self, mark: Mark, key: u32, spent: u64) {
        self.len += 1;
        self.short += usize::from(mark.lane != Lane::Long);
        if mark.urgent {
            self.urgent[usize::from(mark.lane == Lane::Long)].insert(mark.order());
            return;
        }
        let own = self.own.entry(key).or_default();
        own.lanes[mark.lane as usize].insert(mark.order());
        self.order.insert((spent, key));
    }

    /// It waits no more.
    pub fn remove(&mut self, mark: Mark, key: u32, spent: u64) {
        self.len -= 1;
        self.short -= usize::from(mark.lane != Lane::Long);
        if mark.urgent {
            self.urgent[usize::from(mark.lane == Lane::Long)].remove(&mark.order());
        } else if let Some(own) = self.own.get_mut(&key) {
            own.lanes[mark.lane as usize].remove(&mark.order());
            self.drop_empty(key, spent);
        }
    }

    /// What a key has had changed.
    pub fn move_key(&mut self, key: u32, before: u64, after: u64) {
        if before != after && self.order.remove(&(before, key)) {
            self.order.insert((after, key));
        }
    }

    /// Whose turn it is; it waits no more.
    pub fn take(&mut self, short_only: bool) -> Option<Ticket> {
        let named = if short_only {
            self.urgent[0].first()
        } else {
            self.urgent[0].first().into_iter().chain(self.urgent[1].first()).min()
        };
        let next_key = self.order.iter().copied().find(|(_, key)| !short_only || self.own[key].has_short());
        let (ticket, long) = match (named.copied(), next_key) {
            (Some(mark), next) if next.is_none() || self.passed < PATIENCE => {
                self.passed += u32::from(next.is_some());
                let long = !self.urgent[0].remove(&mark);
                if long {
                    self.urgent[1].remove(&mark);
                }
                (mark.1, long)
            }
            (_, Some((spent, key))) => {
                self.passed = 0;
                let (lane, mark) = self.own.get_mut(&key)?.take(short_only)?;
                self.drop_empty(key, spent);
                (mark.1, lane == Lane::Long as usize)
            }
            (_, None) => return None,
        };
        self.len -= 1;
        self.short -= usize::from(!long);
        Some(ticket)
    }

    /// The key that has the most waiting for its weight, with their number and the weight. Those with deadlines of their
    /// own are not counted.
    pub fn most_crowded(&self, accounts: &Accounts) -> Option<(u32, usize, usize)> {
        let each = self.own.iter().map(|(key, own)| (*key, own.len(), accounts.weight(*key)));
        each.max_by(|one, other| (one.1 * other.2).cmp(&(other.1 * one.2)).then(one.0.cmp(&other.0)))
    }

    /// How many of a key wait, those with deadlines of their own apart.
    pub fn of_key(&self, key: u32) -> usize {
        self.own.get(&key).map_or(0, Own::len)
    }

    /// The one of a key that would be served last.
    pub fn last_of(&self, key: u32) -> Option<Ticket> {
        self.own.get(&key)?.lanes.iter().rev().find_map(|lane| lane.last()).map(|mark| mark.1)
    }

    /// Of those with deadlines of their own, the one that would be served last.
    pub fn last_urgent(&self) -> Option<Ticket> {
        self.urgent.iter().rev().find_map(|list| list.last()).map(|mark| mark.1)
    }

    /// About how many go before `mark`, one of `share`'s key.
    pub fn before(&self, mark: Mark, share: Share, accounts: &Accounts) -> usize {
        let earlier = |list: &List| list.range(..mark.order()).count();
        if mark.urgent {
            return self.urgent.iter().map(earlier).sum();
        }
        let Some(own) = self.own.get(&share.key) else { return 0 };
        let lane = mark.lane as usize;
        let mine = own.lanes[..lane].iter().map(BTreeSet::len).sum::<usize>() + earlier(&own.lanes[lane]);
        let weight = accounts.weight(share.key);
        let others = self.own.iter().filter(|(key, _)| **key != share.key);
        let theirs: usize =
            others.map(|(key, other)| other.len().min((mine + 1) * accounts.weight(*key) / weight)).sum();
        self.urgent.iter().map(BTreeSet::len).sum::<usize>() + mine + theirs
    }

    fn drop_empty(&mut self, key: u32, spent: u64) {
        if self.own.get(&key).is_some_and(|own| own.len() == 0) {
            self.own.remove(&key);
            self.order.remove(&(spent, key));
        }
    }
}

impl Own {
    fn len(&self) -> usize {
        self.lanes.iter().map(BTreeSet::len).sum()
    }

    fn has_short(&self) -> bool {
        self.lanes[..Lane::Long as usize].iter().any(|lane| !lane.is_empty())
    }

    fn take(&mut self, short_only: bool) -> Option<(usize, (u64, Ticket))> {
        let lanes = if short_only { &self.lanes[..Lane::Long as usize] } else { &self.lanes[..] };
        let heads = || lanes.iter().enumerate().filter_map(|(lane, list)| list.first().map(|mark| (lane, *mark)));
        let first = heads().next()?;
        let earlier = heads().filter(|(_, mark)| *mark < first.1).min_by_key(|(_, mark)| *mark);
        let chosen = match earlier {
            Some(patient) if self.passed >= PATIENCE => {
                self.passed = 0;
                patient
            }
            Some(_) => {
                self.passed += 1;
                first
            }
            None => first,
        };
        self.lanes[chosen.0].remove(&chosen.1);
        Some(chosen)
    }
}

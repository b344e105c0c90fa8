//! The waiting list of one instance: so many places, and an order for those who wait.
//!
//! The order is priority class, then earliest deadline, then arrival. The work is conserved: nobody waits while a place is
//! free. Every operation is logarithmic in the number of waiters.
use std::collections::{BTreeSet, HashMap, HashSet};

/// Names one request inside its queue; never used twice.
pub type Ticket = u64;

/// Priority classes, first served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Somebody waits in front of a screen.
    High,
    /// The rest.
    Normal,
    /// Work that can wait.
    Low,
}

impl Class {
    /// From its stable number: 0, 1, 2.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::High),
            1 => Some(Self::Normal),
            2 => Some(Self::Low),
            _ => None,
        }
    }

    /// Deadline of a request that names none, nanoseconds after it came (2, 30 and 120 seconds).
    pub const fn default_deadline_ns(self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        match self {
            Self::High => 2 * SECOND,
            Self::Normal => 30 * SECOND,
            Self::Low => 120 * SECOND,
        }
    }
}

/// What became of a request that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It has a place.
    Granted(Ticket),
    /// It waits, with so many before it.
    Waiting(Ticket, usize),
    /// The list is full; it was not taken.
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: Class,
    deadline_ns: u64,
    ticket: Ticket,
}

/// The places of one instance and the requests that wait for them.
#[derive(Debug)]
pub struct Queue {
    places: usize,
    bound: usize,
    next: Ticket,
    running: HashSet<Ticket>,
    waiting: BTreeSet<Rank>,
    ranks: HashMap<Ticket, Rank>,
}

impl Queue {
    /// `places` requests run at once, at most `bound` wait.
    pub fn new(places: usize, bound: usize) -> Self {
        Self { places, bound, next: 0, running: HashSet::new(), waiting: BTreeSet::new(), ranks: HashMap::new() }
    }

    /// A request comes at `now_ns`; `deadline_ns` is on the same clock.
    pub fn enter(&mut self, now_ns: u64, class: Class, deadline_ns: Option<u64>) -> Entry {
        let free = self.running.len() < self.places;
        if !free && self.waiting.len() >= self.bound {
            return Entry::Full;
        }
        let ticket = self.next;
        self.next += 1;
        if free {
            self.running.insert(ticket);
            return Entry::Granted(ticket);
        }
        let deadline_ns = deadline_ns.unwrap_or_else(|| now_ns.saturating_add(class.default_deadline_ns()));
        let rank = Rank { class, deadline_ns, ticket };
        let before = self.waiting.range(..rank).count();
        self.waiting.insert(rank);
        self.ranks.insert(ticket, rank);
        Entry::Waiting(ticket, before)
    }

    /// A request is over, or gave up waiting, whichever it was doing. Answers who has a place now; a ticket that is unknown
    /// (already left) changes nothing.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Ticket> {
        if let Some(rank) = self.ranks.remove(&ticket) {
            self.waiting.remove(&rank);
            return None;
        }
        if !self.running.remove(&ticket) {
            return None;
        }
        self.admit_next()
    }

    /// The number of places changed. Answers who has a place now; those who run keep theirs.
    pub fn resize(&mut self, places: usize) -> Vec<Ticket> {
        self.places = places;
        std::iter::from_fn(|| self.admit_next()).collect()
    }

    /// How many stand before a request that waits; `None` for one that does not.
    pub fn position(&self, ticket: Ticket) -> Option<usize> {
        self.ranks.get(&ticket).map(|rank| self.waiting.range(..*rank).count())
    }

    /// Requests that hold a place.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn admit_next(&mut self) -> Option<Ticket> {
        if self.running.len() >= self.places {
            return None;
        }
        let rank = self.waiting.pop_first()?;
        self.ranks.remove(&rank.ticket);
        self.running.insert(rank.ticket);
        Some(rank.ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(entry: Entry) -> Ticket {
        match entry {
            Entry::Waiting(ticket, _) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn order_is_class_then_deadline_then_arrival() {
        let mut queue = Queue::new(1, 10);
        let Entry::Granted(first) = queue.enter(0, Class::Low, None) else { panic!("a place was free") };
        let low = waiting(queue.enter(0, Class::Low, Some(1)));
        let late = waiting(queue.enter(0, Class::Normal, Some(9)));
        let soon = waiting(queue.enter(0, Class::Normal, Some(5)));
        let soon_too = waiting(queue.enter(0, Class::Normal, Some(5)));
        let high = waiting(queue.enter(0, Class::High, None));
        let before = |ticket| queue.position(ticket);
        assert_eq!(
            [first, low, late, soon, soon_too, high].map(before),
            [None, Some(4), Some(3), Some(1), Some(2), Some(0)]
        );
        let mut order = vec![];
        let mut next = queue.leave(first);
        while let Some(ticket) = next {
            order.push(ticket);
            next = queue.leave(ticket);
        }
        assert_eq!(order, [high, soon, soon_too, late, low]);
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[test]
    fn a_full_list_refuses_and_a_waiter_may_give_up() {
        let mut queue = Queue::new(1, 1);
        let Entry::Granted(first) = queue.enter(0, Class::Normal, None) else { panic!("a place was free") };
        let second = waiting(queue.enter(0, Class::Normal, None));
        assert_eq!(queue.enter(0, Class::High, None), Entry::Full);
        assert_eq!(queue.leave(second), None);
        assert_eq!(queue.leave(second), None);
        assert_eq!(queue.leave(first), None);
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[test]
    fn growing_admits_and_shrinking_takes_nobodys_place() {
        let mut queue = Queue::new(2, 10);
        queue.enter(0, Class::Normal, None);
        queue.enter(0, Class::Normal, None);
        let third = waiting(queue.enter(0, Class::Normal, None));
        assert!(queue.resize(1).is_empty());
        assert_eq!(queue.running(), 2);
        assert_eq!(queue.resize(3), [third]);
    }

    proptest! {
        /// Whatever happens, places are never exceeded, nobody waits beside a free place, and everyone can leave.
        #[test]
        fn work_is_conserved(places in 1usize..5, steps in proptest::collection::vec((0u8..4, 0u8..3, 0u64..100), 0..200)) {
            let mut queue = Queue::new(places, 50);
            let mut live: Vec<Ticket> = vec![];
            for (at, (what, class, deadline)) in steps.into_iter().enumerate() {
                if what == 0 && !live.is_empty() {
                    let ticket = live.swap_remove(usize::try_from(deadline).unwrap_or(0) % live.len());
                    queue.leave(ticket);
                } else {
                    match queue.enter(at as u64, Class::from_number(class).unwrap_or(Class::Low), Some(deadline)) {
                        Entry::Granted(ticket) | Entry::Waiting(ticket, _) => live.push(ticket),
                        Entry::Full => prop_assert_eq!(queue.waiting(), 50),
                    }
                }
                prop_assert!(queue.running() <= places);
                prop_assert!(queue.waiting() == 0 || queue.running() == places);
                prop_assert_eq!(queue.running() + queue.waiting(), live.len());
            }
            for ticket in live {
                queue.leave(ticket);
            }
            prop_assert_eq!((queue.running(), queue.waiting()), (0, 0));
        }
    }
}

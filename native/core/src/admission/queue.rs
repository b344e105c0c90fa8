//! The waiting list of one instance: so many places, and an order for those who wait.
//!
//! The order is priority class, then lane, then earliest deadline, then arrival. The work is conserved: nobody waits while a
//! place is free. Every operation but [`Queue::position`] is logarithmic in the number of waiters.
use std::collections::{BTreeSet, HashMap};

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

/// Kinds of work within a class, first served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// An agent with tools: each turn is short, and others follow it.
    Tools,
    /// The rest.
    Chat,
    /// Text without template or end. These never hold every place while others wait.
    Long,
}

impl Lane {
    /// From its stable number: 0, 1, 2.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Tools),
            1 => Some(Self::Chat),
            2 => Some(Self::Long),
            _ => None,
        }
    }
}

/// What became of a request that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It has a place.
    Granted(Ticket),
    /// It waits.
    Waiting(Ticket),
    /// The list is full; it was not taken.
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: Class,
    lane: Lane,
    deadline_ns: u64,
    ticket: Ticket,
}

/// The places of one instance and the requests that wait for them.
#[derive(Debug)]
pub struct Queue {
    places: usize,
    bound: usize,
    next: Ticket,
    running: HashMap<Ticket, Lane>,
    /// How many of those who run are long.
    long: usize,
    waiting: BTreeSet<Rank>,
    /// Those who wait and are long: apart, so that the first of the others is found at once.
    waiting_long: BTreeSet<Rank>,
    ranks: HashMap<Ticket, Rank>,
}

impl Queue {
    /// `places` requests run at once, at most `bound` wait.
    pub fn new(places: usize, bound: usize) -> Self {
        Self {
            places,
            bound,
            next: 0,
            running: HashMap::new(),
            long: 0,
            waiting: BTreeSet::new(),
            waiting_long: BTreeSet::new(),
            ranks: HashMap::new(),
        }
    }

    /// A request comes at `now_ns`; `deadline_ns` is on the same clock.
    pub fn enter(&mut self, now_ns: u64, class: Class, lane: Lane, deadline_ns: Option<u64>) -> Entry {
        let free = self.running.len() < self.places;
        if !free && self.ranks.len() >= self.bound {
            return Entry::Full;
        }
        let ticket = self.next;
        self.next += 1;
        if free {
            self.run(ticket, lane);
            return Entry::Granted(ticket);
        }
        let deadline_ns = deadline_ns.unwrap_or_else(|| now_ns.saturating_add(class.default_deadline_ns()));
        let rank = Rank { class, lane, deadline_ns, ticket };
        self.list(lane).insert(rank);
        self.ranks.insert(ticket, rank);
        Entry::Waiting(ticket)
    }

    /// A request is over, or gave up waiting, whichever it was doing. Answers who has a place now; a ticket that is unknown
    /// (already left) changes nothing.
    pub fn leave(&mut self, ticket: Ticket) -> Option<Ticket> {
        if let Some(rank) = self.ranks.remove(&ticket) {
            self.list(rank.lane).remove(&rank);
            return None;
        }
        let lane = self.running.remove(&ticket)?;
        self.long -= usize::from(lane == Lane::Long);
        self.admit_next()
    }

    /// The number of places changed. Answers who has a place now; those who run keep theirs.
    pub fn resize(&mut self, places: usize) -> Vec<Ticket> {
        self.places = places;
        std::iter::from_fn(|| self.admit_next()).collect()
    }

    /// How many stand before a request that waits, as far as is known now; `None` for one that does not.
    pub fn position(&self, ticket: Ticket) -> Option<usize> {
        let before = |rank: &Rank| self.waiting.range(..*rank).count() + self.waiting_long.range(..*rank).count();
        self.ranks.get(&ticket).map(before)
    }

    /// Requests that hold a place.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.ranks.len()
    }

    fn list(&mut self, lane: Lane) -> &mut BTreeSet<Rank> {
        if lane == Lane::Long { &mut self.waiting_long } else { &mut self.waiting }
    }

    fn run(&mut self, ticket: Ticket, lane: Lane) {
        self.running.insert(ticket, lane);
        self.long += usize::from(lane == Lane::Long);
    }

    fn admit_next(&mut self) -> Option<Ticket> {
        if self.running.len() >= self.places {
            return None;
        }
        let last_place = self.places > 1 && self.long + 1 >= self.places;
        let long = match (self.waiting.first(), self.waiting_long.first()) {
            (None, None) => return None,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(other), Some(long)) => long < other && !last_place,
        };
        let rank = if long { self.waiting_long.pop_first() } else { self.waiting.pop_first() }?;
        self.ranks.remove(&rank.ticket);
        self.run(rank.ticket, rank.lane);
        Some(rank.ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(entry: Entry) -> Ticket {
        match entry {
            Entry::Waiting(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn order_is_class_then_deadline_then_arrival() {
        let mut queue = Queue::new(1, 10);
        let Entry::Granted(first) = queue.enter(0, Class::Low, Lane::Chat, None) else { panic!("a place was free") };
        let low = waiting(queue.enter(0, Class::Low, Lane::Chat, Some(1)));
        let late = waiting(queue.enter(0, Class::Normal, Lane::Chat, Some(9)));
        let soon = waiting(queue.enter(0, Class::Normal, Lane::Chat, Some(5)));
        let soon_too = waiting(queue.enter(0, Class::Normal, Lane::Chat, Some(5)));
        let high = waiting(queue.enter(0, Class::High, Lane::Chat, None));
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
    fn tools_go_first_and_long_work_last_within_its_class() {
        let mut queue = Queue::new(1, 10);
        let Entry::Granted(first) = queue.enter(0, Class::Normal, Lane::Chat, None) else { panic!("a place was free") };
        let long = waiting(queue.enter(0, Class::Normal, Lane::Long, Some(1)));
        let chat = waiting(queue.enter(0, Class::Normal, Lane::Chat, Some(2)));
        let tools = waiting(queue.enter(0, Class::Normal, Lane::Tools, Some(3)));
        let urgent_long = waiting(queue.enter(0, Class::High, Lane::Long, None));
        assert_eq!([urgent_long, tools, chat, long].map(|ticket| queue.position(ticket)), [0, 1, 2, 3].map(Some));
        let order: Vec<_> = std::iter::successors(queue.leave(first), |ticket| queue.leave(*ticket)).collect();
        assert_eq!(order, [urgent_long, tools, chat, long]);
    }

    #[test]
    fn long_work_never_takes_the_last_place_from_somebody_who_waits() {
        let mut queue = Queue::new(2, 10);
        let Entry::Granted(long) = queue.enter(0, Class::Normal, Lane::Long, None) else { panic!("a place was free") };
        let Entry::Granted(chat) = queue.enter(0, Class::Normal, Lane::Chat, None) else { panic!("a place was free") };
        let urgent_long = waiting(queue.enter(0, Class::High, Lane::Long, None));
        let patient = waiting(queue.enter(0, Class::Low, Lane::Chat, None));
        assert_eq!(queue.leave(chat), Some(patient), "the other place is taken by long work already");
        assert_eq!(queue.leave(patient), Some(urgent_long), "nobody else waits");
        assert_eq!((queue.leave(long), queue.leave(urgent_long)), (None, None));
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[test]
    fn a_full_list_refuses_and_a_waiter_may_give_up() {
        let mut queue = Queue::new(1, 1);
        let Entry::Granted(first) = queue.enter(0, Class::Normal, Lane::Chat, None) else { panic!("a place was free") };
        let second = waiting(queue.enter(0, Class::Normal, Lane::Chat, None));
        assert_eq!(queue.enter(0, Class::High, Lane::Chat, None), Entry::Full);
        assert_eq!(queue.leave(second), None);
        assert_eq!(queue.leave(second), None);
        assert_eq!(queue.leave(first), None);
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[test]
    fn growing_admits_and_shrinking_takes_nobodys_place() {
        let mut queue = Queue::new(2, 10);
        queue.enter(0, Class::Normal, Lane::Chat, None);
        queue.enter(0, Class::Normal, Lane::Chat, None);
        let third = waiting(queue.enter(0, Class::Normal, Lane::Chat, None));
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
                    let lane = Lane::from_number(what % 3).unwrap_or(Lane::Chat);
                    match queue.enter(at as u64, Class::from_number(class).unwrap_or(Class::Low), lane, Some(deadline)) {
                        Entry::Granted(ticket) | Entry::Waiting(ticket) => live.push(ticket),
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

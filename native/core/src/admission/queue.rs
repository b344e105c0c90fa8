//! The waiting list of one instance: so many places, and an order for those who wait.
//!
//! The order is priority class; then deadlines that clients named, the earliest first; then the key that has had the least
//! for its weight; then lane, deadline and arrival among that key's own. Whoever may overtake does so a bounded number of
//! times while the same others wait, so that each of them comes to its turn. The work is conserved: nobody waits while a place
//! is free. Every operation but [`Queue::position`] is logarithmic in the number of waiters, and linear in the number of keys
//! at worst.
use super::fair::{Accounts, Share};
use super::room::{Mark, Room};
use std::collections::HashMap;

/// Names one request inside its queue; never used twice.
pub type Ticket = u64;

/// Priority classes, first served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
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

/// How often requests of a higher class go before those of a lower one who wait.
const PATIENCE: u32 = 64;

#[derive(Debug, Clone, Copy)]
struct Waiter {
    class: Class,
    mark: Mark,
    share: Share,
}

#[derive(Debug, Clone, Copy)]
struct Runner {
    lane: Lane,
    share: Share,
}

/// The places of one instance and the requests that wait for them.
#[derive(Debug)]
pub struct Queue {
    places: usize,
    bound: usize,
    next: Ticket,
    running: HashMap<Ticket, Runner>,
    /// How many of those who run are long.
    long: usize,
    waiting: HashMap<Ticket, Waiter>,
    /// One for each class.
    rooms: [Room; 3],
    /// How often those of a class were overtaken since one of them had a turn.
    overtaken: [u32; 3],
    accounts: Accounts,
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
            waiting: HashMap::new(),
            rooms: Default::default(),
            overtaken: [0; 3],
            accounts: Accounts::default(),
        }
    }

    /// A request comes at `now_ns`; `deadline_ns`, on the same clock, is one that its client named.
    pub fn enter(&mut self, now_ns: u64, class: Class, lane: Lane, deadline_ns: Option<u64>, share: Share) -> Entry {
        let free = self.running.len() < self.places;
        if !free && self.waiting.len() >= self.bound {
            return Entry::Full;
        }
        let ticket = self.next;
        self.next += 1;
        let spent = self.accounts.arrive(share);
        if free {
            self.run(ticket, lane, share);
            return Entry::Granted(ticket);
        }
        let mark = Mark {
            urgent: deadline_ns.is_some(),
            lane,
            deadline_ns: deadline_ns.unwrap_or_else(|| now_ns.saturating_add(class.default_deadline_ns())),
            ticket,
        };
        self.rooms[class as usize].add(mark, share.key, spent);
        self.waiting.insert(ticket, Waiter { class, mark, share });
        Entry::Waiting(ticket)
    }

    /// Makes room in a full list for somebody of `class` and `share`, if one of those who wait has less of a claim to it:
    /// one of a lower class; or the last of the key that has more waiting for its weight than this one would have. Who is
    /// answered waits no more. Without this, the list fills as requests come, and weights and classes would order
    /// nothing but those that happened to find room.
    pub fn crowd_out(&mut self, class: Class, share: Share) -> Option<Ticket> {
        if self.waiting.len() < self.bound {
            return None;
        }
        let class = class as usize;
        let lowest = (class..3).rev().find(|&class| self.rooms[class].len() > 0)?;
        let room = &self.rooms[lowest];
        let crowded = room.most_crowded(&self.accounts);
        let ticket = if lowest > class {
            crowded.and_then(|(key, ..)| room.last_of(key)).or_else(|| room.last_urgent())
        } else {
            let (key, theirs, weight) = crowded?;
            let mine = if key == share.key { return None } else { room.of_key(share.key) + 1 };
            (theirs * share.weight.max(1) as usize > mine * weight).then(|| room.last_of(key)).flatten()
        }?;
        self.leave(ticket, None);
        Some(ticket)
    }

    /// A request is over, or gave up waiting, whichever it was doing; `used` are the tokens that it came to, where that is
    /// known. Answers who has a place now; a ticket that is unknown (already left) changes nothing.
    pub fn leave(&mut self, ticket: Ticket, used: Option<u64>) -> Option<Ticket> {
        if let Some(waiter) = self.waiting.remove(&ticket) {
            let spent = self.accounts.spent(waiter.share.key);
            self.rooms[waiter.class as usize].remove(waiter.mark, waiter.share.key, spent);
            self.accounts.give_up(waiter.share.key);
            return None;
        }
        let runner = self.running.remove(&ticket)?;
        self.long -= usize::from(runner.lane == Lane::Long);
        let key = runner.share.key;
        let before = self.accounts.spent(key);
        let after = self.accounts.settle(runner.share, used);
        self.move_key(key, before, after);
        self.accounts.finish(key);
        self.admit_next()
    }

    /// The number of places changed. Answers who has a place now; those who run keep theirs.
    pub fn resize(&mut self, places: usize) -> Vec<Ticket> {
        self.places = places;
        std::iter::from_fn(|| self.admit_next()).collect()
    }

    /// About how many will go before a request that waits, if nobody else comes; `None` for one that does not. It is exact
    /// where all are of one key.
    pub fn position(&self, ticket: Ticket) -> Option<usize> {
        let waiter = self.waiting.get(&ticket)?;
        let class = waiter.class as usize;
        let higher: usize = self.rooms[..class].iter().map(Room::len).sum();
        Some(higher + self.rooms[class].before(waiter.mark, waiter.share, &self.accounts))
    }

    /// Requests that hold a place.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn run(&mut self, ticket: Ticket, lane: Lane, share: Share) {
        let before = self.accounts.spent(share.key);
        let after = self.accounts.begin(share);
        self.move_key(share.key, before, after);
        self.running.insert(ticket, Runner { lane, share });
        self.long += usize::from(lane == Lane::Long);
    }

    fn move_key(&mut self, key: u32, before: u64, after: u64) {
        for room in &mut self.rooms {
            room.move_key(key, before, after);
        }
    }

    fn admit_next(&mut self) -> Option<Ticket> {
        if self.running.len() >= self.places {
            return None;
        }
        // Long work may take the last place that is free of it only where nobody else wants one.
        let last_place = self.places > 1 && self.long + 1 >= self.places;
        let short_only = last_place && self.rooms.iter().any(|room| room.short() > 0);
        let class = self.next_class(short_only)?;
        let ticket = self.rooms[class].take(short_only)?;
        let waiter = self.waiting.remove(&ticket)?;
        self.run(ticket, waiter.mark.lane, waiter.share);
        Some(ticket)
    }

    /// The class whose turn it is, of those in which somebody waits.
    fn next_class(&mut self, short_only: bool) -> Option<usize> {
        let waits = |room: &Room| if short_only { room.short() > 0 } else { room.len() > 0 };
        let first = self.rooms.iter().position(waits)?;
        let patient = (first + 1..3).find(|&class| waits(&self.rooms[class]) && self.overtaken[class] >= PATIENCE);
        let chosen = patient.unwrap_or(first);
        self.overtaken[chosen] = 0;
        for class in chosen + 1..3 {
            self.overtaken[class] += u32::from(waits(&self.rooms[class]));
        }
        Some(chosen)
    }
}

#[cfg(test)]
mod tests;

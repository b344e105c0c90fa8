use super::*;
use proptest::prelude::*;
use std::collections::HashMap as Map;

fn waiting(entry: Entry) -> Ticket {
    match entry {
        Entry::Waiting(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn granted(entry: Entry) -> Ticket {
    match entry {
        Entry::Granted(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

impl Queue {
    fn come(&mut self, now_ns: u64, class: Class, lane: Lane, deadline_ns: Option<u64>) -> Entry {
        self.enter(now_ns, class, lane, deadline_ns, Share::default())
    }

    /// Everybody leaves as soon as it has a place, from `first` on; the order in which they had it.
    fn drain(&mut self, first: Ticket) -> Vec<Ticket> {
        std::iter::successors(self.leave(first, None), |ticket| self.leave(*ticket, None)).collect()
    }
}

#[test]
fn order_is_class_then_named_deadline_then_arrival() {
    let mut queue = Queue::new(1, 10);
    let first = granted(queue.come(0, Class::Low, Lane::Chat, None));
    let low = waiting(queue.come(0, Class::Low, Lane::Chat, Some(1)));
    let unnamed = waiting(queue.come(0, Class::Normal, Lane::Tools, None));
    let late = waiting(queue.come(0, Class::Normal, Lane::Chat, Some(9)));
    let soon = waiting(queue.come(0, Class::Normal, Lane::Chat, Some(5)));
    let soon_too = waiting(queue.come(0, Class::Normal, Lane::Chat, Some(5)));
    let high = waiting(queue.come(0, Class::High, Lane::Chat, None));
    let order = [high, soon, soon_too, late, unnamed, low];
    assert_eq!(order.map(|ticket| queue.position(ticket)), [0, 1, 2, 3, 4, 5].map(Some));
    assert_eq!(queue.position(first), None);
    assert_eq!(queue.drain(first), order);
    assert_eq!((queue.running(), queue.waiting()), (0, 0));
}

#[test]
fn tools_go_first_and_long_work_last_within_its_class() {
    let mut queue = Queue::new(1, 10);
    let first = granted(queue.come(0, Class::Normal, Lane::Chat, None));
    let long = waiting(queue.come(1, Class::Normal, Lane::Long, None));
    let chat = waiting(queue.come(2, Class::Normal, Lane::Chat, None));
    let tools = waiting(queue.come(3, Class::Normal, Lane::Tools, None));
    let urgent_long = waiting(queue.come(4, Class::High, Lane::Long, None));
    let order = [urgent_long, tools, chat, long];
    assert_eq!(order.map(|ticket| queue.position(ticket)), [0, 1, 2, 3].map(Some));
    assert_eq!(queue.drain(first), order);
}

#[test]
fn long_work_never_takes_the_last_place_from_somebody_who_waits() {
    let mut queue = Queue::new(2, 10);
    let long = granted(queue.come(0, Class::Normal, Lane::Long, None));
    let chat = granted(queue.come(0, Class::Normal, Lane::Chat, None));
    let urgent_long = waiting(queue.come(0, Class::High, Lane::Long, None));
    let named_long = waiting(queue.come(0, Class::High, Lane::Long, Some(1)));
    let patient = waiting(queue.come(0, Class::Low, Lane::Chat, None));
    assert_eq!(queue.leave(chat, None), Some(patient), "the other place is taken by long work already");
    assert_eq!(queue.leave(patient, None), Some(named_long), "nobody else waits");
    assert_eq!(queue.leave(long, None), Some(urgent_long));
    assert_eq!((queue.leave(named_long, None), queue.leave(urgent_long, None)), (None, None));
    assert_eq!((queue.running(), queue.waiting()), (0, 0));
}

#[test]
fn a_full_list_refuses_and_a_waiter_may_give_up() {
    let mut queue = Queue::new(1, 1);
    let first = granted(queue.come(0, Class::Normal, Lane::Chat, None));
    let second = waiting(queue.come(0, Class::Normal, Lane::Chat, None));
    assert_eq!(queue.come(0, Class::High, Lane::Chat, None), Entry::Full);
    assert_eq!(queue.leave(second, None), None);
    assert_eq!(queue.leave(second, None), None);
    assert_eq!(queue.leave(first, None), None);
    assert_eq!((queue.running(), queue.waiting()), (0, 0));
}

#[test]
fn growing_admits_and_shrinking_takes_nobodys_place() {
    let mut queue = Queue::new(2, 10);
    queue.come(0, Class::Normal, Lane::Chat, None);
    queue.come(0, Class::Normal, Lane::Chat, None);
    let third = waiting(queue.come(0, Class::Normal, Lane::Chat, None));
    assert!(queue.resize(1).is_empty());
    assert_eq!(queue.running(), 2);
    assert_eq!(queue.resize(3), [third]);
}

/// Somebody comes first and is least in every way; all who come after go before it, for a while.
#[test]
fn nobody_is_overtaken_without_end() {
    for (class, deadline, bound) in
        [(Class::Normal, None, 2 * 17), (Class::Normal, Some(9), 2 * 17 * 17), (Class::High, Some(9), 65 * 17 * 17)]
    {
        let mut queue = Queue::new(1, 10);
        let mut runs = granted(queue.come(0, Class::Normal, Lane::Chat, None));
        let last = waiting(queue.come(0, Class::Low, Lane::Chat, None));
        let last = if class == Class::Normal {
            queue.leave(last, None);
            waiting(queue.come(0, Class::Normal, Lane::Chat, None))
        } else {
            last
        };
        let mut turns = 0;
        while runs != last {
            queue.come(1, class, Lane::Tools, deadline);
            runs = queue.leave(runs, None).unwrap();
            turns += 1;
            assert!(turns <= bound, "{class:?} {deadline:?}");
        }
    }
}

/// Keys that always have more to ask for: what each had is in proportion to its weight, though the costs of their
/// requests differ by far and are known only afterwards.
#[test]
fn shares_follow_weights_within_five_percent() {
    let keys: [(u32, u32, u64); 4] = [(1, 1, 900), (2, 2, 40), (3, 4, 333), (4, 1, 5)];
    let mut queue = Queue::new(3, 1000);
    let mut owners = Map::new();
    let mut had = Map::new();
    let mut running = vec![];
    let mut now = 0;
    let mut ask = |queue: &mut Queue, owners: &mut Map<Ticket, usize>, who: usize| {
        now += 1;
        let (key, weight, _) = keys[who];
        let entry = queue.enter(now, Class::Normal, Lane::Chat, None, Share { key, weight, cost: 100 });
        let (Entry::Granted(ticket) | Entry::Waiting(ticket)) = entry else { panic!("full") };
        owners.insert(ticket, who);
        entry
    };
    for who in (0..4).cycle().take(32) {
        if let Entry::Granted(ticket) = ask(&mut queue, &mut owners, who) {
            running.push(ticket);
        }
    }
    for turn in 0..200_000_usize {
        let place = turn % running.len();
        let ticket = running[place];
        let who = owners.remove(&ticket).unwrap();
        let used = keys[who].2 * (1 + turn as u64 % 3);
        *had.entry(who).or_insert(0_u64) += used;
        ask(&mut queue, &mut owners, who);
        running[place] = queue.leave(ticket, Some(used)).unwrap();
    }
    let (total, weights) = (had.values().sum::<u64>(), keys.iter().map(|key| u64::from(key.1)).sum::<u64>());
    for (who, (_, weight, _)) in keys.iter().enumerate() {
        let (share, due) = (had[&who] * weights * 100 / total, u64::from(*weight) * 100);
        assert!(share.abs_diff(due) * 20 <= due, "key {who}: {share} of {due}");
    }
}

/// Far more than there is room for, in equal numbers: what each key has is in proportion to its weight even so.
#[test]
fn shares_follow_weights_where_most_are_refused() {
    let mut queue = Queue::new(4, 40);
    let (mut owners, mut running, mut had) = (Map::new(), vec![], [0_u64; 2]);
    for now in 0..200_000_u64 {
        let key = u32::try_from(now % 2).unwrap();
        let share = Share { key: key + 1, weight: if key == 0 { 3 } else { 1 }, cost: 100 };
        let mut entry = queue.enter(now, Class::Normal, Lane::Chat, None, share);
        if entry == Entry::Full && queue.crowd_out(Class::Normal, share).is_some() {
            entry = queue.enter(now, Class::Normal, Lane::Chat, None, share);
            assert_ne!(entry, Entry::Full, "whoever was let in has room");
        }
        match entry {
            Entry::Granted(ticket) => {
                owners.insert(ticket, key);
                running.push(ticket);
            }
            Entry::Waiting(ticket) => {
                owners.insert(ticket, key);
            }
            Entry::Full => {}
        }
        assert!(queue.waiting() <= 40);
        if now % 20 == 0 && !running.is_empty() {
            let ticket = running.remove(0);
            had[owners[&ticket] as usize] += 1;
            running.extend(queue.leave(ticket, Some(100)));
        }
    }
    let ratio = had[0] * 100 / had[1];
    assert!((285..=315).contains(&ratio), "{had:?}");
}

#[test]
fn somebody_of_a_higher_class_takes_the_place_of_the_last_of_a_lower_one() {
    let share = |key| Share { key, weight: 1, cost: 1 };
    let mut queue = Queue::new(1, 2);
    granted(queue.enter(0, Class::Low, Lane::Chat, None, share(1)));
    let first = waiting(queue.enter(1, Class::Low, Lane::Chat, None, share(1)));
    let named = waiting(queue.enter(2, Class::Low, Lane::Chat, Some(9), share(1)));
    assert_eq!(queue.crowd_out(Class::Low, share(1)), None, "nobody has less of a claim");
    assert_eq!(queue.crowd_out(Class::Normal, share(1)), Some(first), "who named a deadline goes last");
    waiting(queue.enter(3, Class::Normal, Lane::Chat, None, share(1)));
    assert_eq!(queue.crowd_out(Class::High, share(2)), Some(named));
    waiting(queue.enter(4, Class::High, Lane::Chat, None, share(2)));
    assert_eq!(queue.crowd_out(Class::Low, share(3)), None);
    assert_eq!(queue.waiting(), 2);
    assert_eq!(queue.leave(named, None), None, "it is gone");
}

#[test]
fn a_list_with_room_drives_nobody_out() {
    let mut queue = Queue::new(1, 2);
    granted(queue.come(0, Class::Low, Lane::Chat, None));
    waiting(queue.come(1, Class::Low, Lane::Chat, None));
    assert_eq!(queue.crowd_out(Class::High, Share::default()), None);
}

#[test]
fn who_was_away_has_saved_nothing_up_and_who_took_much_is_not_forgiven() {
    let share = |key| Share { key, weight: 1, cost: 100 };
    let mut queue = Queue::new(1, 100);
    let mut runs = granted(queue.enter(0, Class::Normal, Lane::Chat, None, share(1)));
    for _ in 0..20 {
        queue.enter(0, Class::Normal, Lane::Chat, None, share(1));
        runs = queue.leave(runs, Some(100)).unwrap();
    }
    let news: Vec<_> = (0..3).map(|_| waiting(queue.enter(1, Class::Normal, Lane::Chat, None, share(2)))).collect();
    let olds: Vec<_> = (0..3).map(|_| waiting(queue.enter(1, Class::Normal, Lane::Chat, None, share(1)))).collect();
    assert_eq!(queue.drain(runs), [news[0], olds[0], news[1], olds[1], news[2], olds[2]]);
}

proptest! {
    /// Whatever happens, places are never exceeded, nobody waits beside a free place, positions are places in the
    /// list, and everyone can leave.
    #[test]
    fn work_is_conserved(
        places in 1usize..5,
        steps in proptest::collection::vec((0u8..6, 0u8..3, 0u64..100, 0u32..4), 0..300),
    ) {
        let mut queue = Queue::new(places, 50);
        let mut live: Vec<Ticket> = vec![];
        for (at, (what, class, deadline, key)) in steps.into_iter().enumerate() {
            if what >= 4 && !live.is_empty() {
                let ticket = live.swap_remove(usize::try_from(deadline).unwrap_or(0) % live.len());
                queue.leave(ticket, (what == 5).then_some(deadline));
            } else {
                let lane = Lane::from_number(what % 3).unwrap_or(Lane::Chat);
                let class = Class::from_number(class).unwrap_or(Class::Low);
                let share = Share { key, weight: key + 1, cost: deadline };
                match queue.enter(at as u64, class, lane, (deadline > 50).then_some(deadline), share) {
                    Entry::Granted(ticket) | Entry::Waiting(ticket) => live.push(ticket),
                    Entry::Full => prop_assert_eq!(queue.waiting(), 50),
                }
            }
            prop_assert!(queue.running() <= places);
            prop_assert!(queue.waiting() == 0 || queue.running() == places);
            prop_assert_eq!(queue.running() + queue.waiting(), live.len());
            prop_assert!(live.iter().filter_map(|ticket| queue.position(*ticket)).all(|place| place < queue.waiting()));
        }
        for ticket in live {
            queue.leave(ticket, None);
        }
        prop_assert_eq!((queue.running(), queue.waiting()), (0, 0));
        prop_assert!(queue.rooms.iter().all(|room| room.len() == 0 && room.short() == 0));
    }
}

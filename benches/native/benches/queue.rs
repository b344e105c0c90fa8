//! Requests of a hundred keys that enter and leave a queue in which ten thousand others wait, by the second.
//!
//! `cargo bench -p blazar-benches --bench queue` measures; `-- --smoke` only shows that it runs. Target: a million.
use blazar_core::admission::{Class, Entry, Lane, Queue, Share};
use std::{env, hint::black_box, time::Instant};

const WAITING: usize = 10_000;

fn main() {
    let smoke = env::args().any(|argument| argument == "--smoke");
    let turns: u32 = if smoke { 1_000 } else { 2_000_000 };
    let mut queue = Queue::new(4, 2 * WAITING);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut enter = |queue: &mut Queue, now: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = |shift: u32| u8::try_from((random >> shift) % 3).unwrap_or(0);
        let (class, lane) = (Class::from_number(number(33)), Lane::from_number(number(40)));
        let (Some(class), Some(lane)) = (class, lane) else { return Entry::Full };
        let key = u32::try_from((random >> 48) % 100).unwrap_or(0);
        let deadline = (random >> 63 == 1).then_some(now + (random >> 44));
        let share = Share { key, weight: 1 + key % 4, cost: random >> 54 };
        queue.enter(now, class, lane, deadline, share)
    };
    let mut running = Vec::new();
    for now in 0..(WAITING as u64 + 4) {
        if let Entry::Granted(ticket) = enter(&mut queue, now) {
            running.push(ticket);
        }
    }
    assert_eq!(queue.waiting(), WAITING);
    let start = Instant::now();
    for turn in 0..turns {
        black_box(enter(&mut queue, u64::from(turn)));
        let at = turn as usize % running.len();
        if let Some(next) = queue.leave(running[at], Some(u64::from(turn) % 500)) {
            running[at] = next;
        }
    }
    let rate = f64::from(turns) / start.elapsed().as_secs_f64();
    assert_eq!((queue.waiting(), queue.running()), (WAITING, 4));
    println!("{rate:>12.0} enter and leave a second with {WAITING} waiting (target 1000000)");
}

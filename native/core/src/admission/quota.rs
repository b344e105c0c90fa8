//! What one key may ask for: requests and tokens a minute, tokens a day, requests at once.
//!
//! Rates are kept by the generic cell rate algorithm (ITU-T I.371): one instant for each rate, up to which what was used is
//! paid. So the time to wait is exact, an unused minute is saved and no more, and what turns out to cost more is owed.

const MINUTE_NS: i128 = 60_000_000_000;
const DAY_S: u64 = 86_400;

/// Bounds; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests a minute.
    pub rpm: u64,
    /// Tokens a minute.
    pub tpm: u64,
    /// Tokens in a day of UTC.
    pub daily: u64,
    /// Requests at once.
    pub concurrent: u64,
}

/// Which bound a request would break, and when it would not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many run as may; when one ends is not known.
    Concurrent,
    /// Nanoseconds to wait.
    Requests(u64),
    /// Nanoseconds to wait.
    Tokens(u64),
    /// Nanoseconds to wait.
    Daily(u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    per_minute: u64,
    paid_until: i128,
}

impl Rate {
    /// What `amount` costs. More than a minute's worth costs a minute for the purpose of being let in.
    fn price(self, amount: u64) -> i128 {
        i128::from(amount) * MINUTE_NS / i128::from(self.per_minute)
    }

    fn wait(self, now: i128, amount: u64) -> Option<u64> {
        if self.per_minute == 0 || amount == 0 {
            return None;
        }
        let price = self.price(amount.min(self.per_minute));
        let wait = self.paid_until.max(now) + price - MINUTE_NS - now;
        (wait > 0).then(|| u64::try_from(wait).unwrap_or(u64::MAX))
    }

    fn charge(&mut self, now: i128, amount: u64) {
        if self.per_minute > 0 {
            self.paid_until = self.paid_until.max(now) + self.price(amount);
        }
    }

    /// `more` minus `less` is charged afterwards.
    fn correct(&mut self, now: i128, less: u64, more: u64) {
        if self.per_minute > 0 {
            self.paid_until = self.paid_until.max(now) + self.price(more) - self.price(less);
        }
    }

    /// `(left, nanoseconds until all is there again)`.
    fn left(self, now: i128) -> (u64, u64) {
        let used = (self.paid_until - now).clamp(0, i128::MAX);
        let left = (MINUTE_NS - used).max(0) * i128::from(self.per_minute) / MINUTE_NS;
        (u64::try_from(left).unwrap_or(0), u64::try_from(used).unwrap_or(u64::MAX))
    }
}

/// What a key has used.
#[derive(Debug, Default)]
pub struct Budget {
    daily: u64,
    concurrent: u64,
    requests: Rate,
    tokens: Rate,
    day: u64,
    used_today: u64,
    held_today: u64,
    running: u64,
}

impl Budget {
    /// Nothing is used yet but `used_today` tokens on day `day` (days since 1970).
    pub fn new(limits: Limits, day: u64, used_today: u64) -> Self {
        let mut budget = Self { day, used_today, ..Self::default() };
        budget.limit(limits);
        budget
    }

    /// The bounds changed; what is used stays used.
    pub fn limit(&mut self, limits: Limits) {
        self.daily = limits.daily;
        self.concurrent = limits.concurrent;
        self.requests.per_minute = limits.rpm;
        self.tokens.per_minute = limits.tpm;
    }

    /// A request comes that may cost `tokens`. Either every bound holds, and all are charged, or none is. `now_ns` is
    /// monotonic, `civil_s` seconds since 1970.
    pub fn take(&mut self, now_ns: u64, civil_s: u64, tokens: u64) -> Result<(), Refusal> {
        let now = i128::from(now_ns);
        self.turn_day(civil_s);
        if self.concurrent > 0 && self.running >= self.concurrent {
            return Err(Refusal::Concurrent);
        }
        if let Some(wait) = self.requests.wait(now, 1) {
            return Err(Refusal::Requests(wait));
        }
        if let Some(wait) = self.tokens.wait(now, tokens) {
            return Err(Refusal::Tokens(wait));
        }
        // One that is larger than what is left of the day may still begin it.
        let held = self.used_today + self.held_today;
        if self.daily > 0 && held > 0 && held + tokens.min(self.daily) > self.daily {
            return Err(Refusal::Daily((DAY_S - civil_s % DAY_S) * 1_000_000_000));
        }
        self.requests.charge(now, 1);
        self.tokens.charge(now, tokens);
        self.held_today += tokens;
        self.running += 1;
        Ok(())
    }

    /// A request that was taken for `reserved` tokens is over and cost `used`.
    pub fn settle(&mut self, now_ns: u64, civil_s: u64, reserved: u64, used: u64) {
        self.turn_day(civil_s);
        self.tokens.correct(i128::from(now_ns), reserved, used);
        self.held_today = self.held_today.saturating_sub(reserved);
        self.used_today += used;
        self.running = self.running.saturating_sub(1);
    }

    /// Tokens used on the day of `civil_s`.
    pub fn used_today(&mut self, civil_s: u64) -> u64 {
        self.turn_day(civil_s);
        self.used_today
    }

    /// Requests that are not over.
    pub const fn running(&self) -> u64 {
        self.running
    }

    /// `(bound, left, nanoseconds until all is there again)` of requests and of tokens a minute; `None` where no bound is.
    pub fn left(&self, now_ns: u64) -> [Option<(u64, u64, u64)>; 2] {
        [self.requests, self.tokens].map(|rate| {
            let (left, wait) = rate.left(i128::from(now_ns));
            (rate.per_minute > 0).then_some((rate.per_minute, left, wait))
        })
    }

    /// What is reserved goes over into the new day with those who hold it.
    fn turn_day(&mut self, civil_s: u64) {
        let day = civil_s / DAY_S;
        if day > self.day {
            self.day = day;
            self.used_today = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn budget(rpm: u64, tpm: u64, daily: u64, concurrent: u64) -> Budget {
        Budget::new(Limits { rpm, tpm, daily, concurrent }, 0, 0)
    }

    #[test]
    fn a_minutes_worth_may_come_at_once_and_then_one_by_one() {
        let mut key = budget(3, 0, 0, 0);
        for _ in 0..3 {
            key.take(0, 0, 10).unwrap();
        }
        assert_eq!(key.take(0, 0, 10), Err(Refusal::Requests(20 * SECOND)));
        assert_eq!(key.take(20 * SECOND - 1, 0, 10), Err(Refusal::Requests(1)));
        assert_eq!(key.take(20 * SECOND, 0, 10), Ok(()));
        assert_eq!(key.take(20 * SECOND, 0, 10), Err(Refusal::Requests(20 * SECOND)));
    }

    #[test]
    fn what_was_reserved_and_not_used_comes_back_and_what_was_used_beyond_is_owed() {
        let mut key = budget(0, 600, 0, 0);
        key.take(0, 0, 600).unwrap();
        assert_eq!(key.take(0, 0, 300), Err(Refusal::Tokens(30 * SECOND)));
        key.settle(0, 0, 600, 300);
        key.take(0, 0, 300).unwrap();
        key.settle(0, 0, 300, 900);
        assert_eq!(key.take(0, 0, 100), Err(Refusal::Tokens(70 * SECOND)), "600 owed and 100 more");
    }

    #[test]
    fn a_request_larger_than_a_minutes_worth_waits_for_a_whole_minute_and_no_longer() {
        let mut key = budget(0, 100, 0, 0);
        key.take(0, 0, 500).unwrap();
        assert_eq!(key.take(0, 0, 1), Err(Refusal::Tokens(240 * SECOND + 600_000_000)));
    }

    #[test]
    fn nothing_is_charged_where_one_bound_refuses() {
        let mut key = budget(10, 100, 50, 1);
        key.take(0, 0, 40).unwrap();
        let before = key.left(0);
        assert_eq!(key.take(0, 0, 1), Err(Refusal::Concurrent));
        key.settle(0, 0, 40, 40);
        assert!(matches!(key.take(0, 0, 70), Err(Refusal::Tokens(_))));
        assert!(matches!(key.take(0, 80, 20), Err(Refusal::Daily(_))));
        assert_eq!(key.left(0), before);
        assert_eq!((key.running(), key.used_today(0)), (0, 40));
    }

    #[test]
    fn a_day_ends_at_midnight() {
        let mut key = budget(0, 0, 100, 0);
        key.take(0, DAY_S - 5, 100).unwrap();
        key.settle(0, DAY_S - 5, 100, 100);
        assert_eq!(key.take(0, DAY_S - 5, 1), Err(Refusal::Daily(5 * SECOND)));
        assert_eq!(key.take(0, DAY_S, 1), Ok(()));
        assert_eq!(key.used_today(DAY_S), 0);
    }

    proptest! {
        /// Whoever waits as long as it was told is let in, a nanosecond earlier it is not, and over any time no more is
        /// let in than the rate and one minute saved.
        #[test]
        fn the_time_to_wait_is_exact(rpm in 0u64..50, tpm in 1u64..5000, asks in proptest::collection::vec((0u64..400, 0u64..3 * SECOND), 1..200)) {
            let mut key = budget(rpm, tpm, 0, 0);
            let (mut now, mut tokens, mut requests) = (0, 0, 0);
            for (amount, pause) in asks {
                now += pause;
                let amount = amount.min(tpm);
                loop {
                    match key.take(now, 0, amount) {
                        Ok(()) => break,
                        Err(Refusal::Requests(wait) | Refusal::Tokens(wait)) => {
                            prop_assert!(key.take(now + wait - 1, 0, amount).is_err());
                            now += wait;
                        }
                        Err(other) => prop_assert!(false, "{:?}", other),
                    }
                }
                tokens += amount;
                requests += 1;
                let minutes = i128::from(now) + MINUTE_NS;
                prop_assert!(i128::from(tokens) * MINUTE_NS <= minutes * i128::from(tpm) + MINUTE_NS * i128::from(requests));
                prop_assert!(rpm == 0 || i128::from(requests) * MINUTE_NS <= minutes * i128::from(rpm) + MINUTE_NS);
            }
        }

        /// However requests come and go, everything that was held is given back.
        #[test]
        fn what_is_taken_is_given_back(asks in proptest::collection::vec((0u64..100, 0u64..100, any::<bool>()), 0..100)) {
            let mut key = budget(0, 0, 0, 0);
            let (mut held, mut used_all) = (vec![], 0);
            for (reserved, used, leave) in asks {
                key.take(0, 0, reserved).unwrap();
                held.push((reserved, used));
                if leave {
                    let (reserved, used) = held.swap_remove(0);
                    key.settle(0, 0, reserved, used);
                    used_all += used;
                }
            }
            for (reserved, used) in held {
                key.settle(0, 0, reserved, used);
                used_all += used;
            }
            prop_assert_eq!((key.running(), key.held_today, key.used_today), (0, 0, used_all));
        }
    }
}

//! Seats: how many connections there may be, and who gives way when all are taken.
//!
//! Whoever connects and says nothing costs the server a seat and itself nothing. So a seat is only safe while a request of a known caller is
//! being answered. When there is no seat left, of all or of those for one address, the connection that has been idle longest gives way: first of
//! those that never showed a token, then of those that wait between two requests, which HTTP lets a server close at any time. Only where every
//! seat is busy with a known caller's request is a newcomer turned away, and even then it may ask for the server's health on one of a few spare
//! seats.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Seats beyond the limit, for health alone.
const SPARE: usize = 32;

/// All seats of one listener.
pub(super) struct Seats {
    most: usize,
    per_address: usize,
    began: Instant,
    taken: Mutex<Taken>,
    /// Told whenever the last one has left.
    empty: Notify,
}

#[derive(Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, Arc<Seat>>,
}

/// One connection.
struct Seat {
    address: IpAddr,
    /// On one of the spare seats.
    spare: bool,
    /// Some request of it had a good token.
    known: AtomicBool,
    /// A request is being answered.
    busy: AtomicBool,
    /// It has asked something.
    asked: AtomicBool,
    /// Milliseconds since the listener began, when it last did anything.
    active: AtomicU64,
    leave: Notify,
}

impl Seat {
    fn safe(&self) -> bool {
        self.known.load(Ordering::Acquire) && self.busy.load(Ordering::Acquire)
    }

    /// Who gives way first is least.
    fn rank(&self) -> (bool, u64) {
        (self.known.load(Ordering::Acquire), self.active.load(Ordering::Acquire))
    }
}

impl Seats {
    pub(super) fn new(most: usize, per_address: usize) -> Arc<Self> {
        let (taken, empty) = (Mutex::new(Taken::default()), Notify::new());
        Arc::new(Self { most, per_address, began: Instant::now(), taken, empty })
    }

    /// A seat for somebody who has just connected; somebody else may have to leave.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Ticket {
        let address = owner_of(address);
        let mut taken = self.lock();
        let ordinary = |seat: &&Arc<Seat>| !seat.spare;
        let mine = taken.seats.values().filter(ordinary).filter(|seat| seat.address == address).count();
        let all = taken.seats.values().filter(ordinary).count();
        let room = if mine >= self.per_address {
            taken.make_room(|seat| !seat.spare && seat.address == address)
        } else {
            all < self.most || taken.make_room(|seat| !seat.spare)
        };
        if !room && taken.seats.values().filter(|seat| seat.spare).count() >= SPARE {
            taken.make_room(|seat| seat.spare);
        }
        let seat = Arc::new(Seat {
            address,
            spare: !room,
            known: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            active: AtomicU64::new(self.now()),
            leave: Notify::new(),
        });
        let number = taken.next;
        taken.next += 1;
        taken.seats.insert(number, Arc::clone(&seat));
        Ticket { seats: Arc::clone(self), seat, number }
    }

    /// How many are taken.
    pub(super) fn count(&self) -> usize {
        self.lock().seats.len()
    }

    /// Comes back when nobody is left.
    pub(super) async fn emptied(&self) {
        loop {
            let empty = self.empty.notified();
            if self.count() == 0 {
                return;
            }
            empty.await;
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Sends one of these away; `false` if all of them are safe.
    fn make_room(&mut self, among: impl Fn(&Seat) -> bool) -> bool {
        let candidates = self.seats.iter().filter(|(_, seat)| among(seat) && !seat.safe());
        let Some((&number, _)) = candidates.min_by_key(|(_, seat)| seat.rank()) else { return false };
        if let Some(seat) = self.seats.remove(&number) {
            seat.leave.notify_one();
        }
        true
    }
}

/// A user of this machine has millions of loopback addresses, and the owner of an IPv6 network more: each is one address here.
fn owner_of(address: IpAddr) -> IpAddr {
    if address.to_canonical().is_loopback() { Ipv4Addr::LOCALHOST.into() } else { super::rate_limit::peer(address) }
}

/// A seat, as its connection holds it; dropping it leaves.
pub(super) struct Ticket {
    seats: Arc<Seats>,
    seat: Arc<Seat>,
    number: u64,
}

impl Ticket {
    /// A request has come.
    pub(super) fn begin(&self) {
        self.seat.asked.store(true, Ordering::Release);
        self.seat.busy.store(true, Ordering::Release);
        self.touch();
    }

    /// Its caller is known.
    pub(super) fn know(&self) {
        self.seat.known.store(true, Ordering::Release);
    }

    /// It is answered.
    pub(super) fn end(&self) {
        self.touch();
        self.seat.busy.store(false, Ordering::Release);
    }

    /// Whether only health may be asked for.
    pub(super) fn is_spare(&self) -> bool {
        self.seat.spare
    }

    /// Whether anything was ever asked.
    pub(super) fn has_asked(&self) -> bool {
        self.seat.asked.load(Ordering::Acquire)
    }

    /// Comes back when the seat is wanted for somebody else.
    pub(super) async fn asked_to_leave(&self) {
        self.seat.leave.notified().await;
    }

    fn touch(&self) {
        self.seat.active.store(self.seats.now(), Ordering::Release);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.seats.remove(&self.number);
        if taken.seats.is_empty() {
            self.seats.empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_silent_give_way_and_the_busy_do_not() {
        let seats = Seats::new(4, 3);
        let silent = [seats.take(address(1)), seats.take(address(1))];
        let busy = [seats.take(address(2)), seats.take(address(2))];
        busy.iter().for_each(|ticket| {
            ticket.begin();
            ticket.know();
        });
        // One in, one out: those that never showed a token go first, in the order that they came.
        let third = seats.take(address(3));
        assert!(!third.is_spare() && seats.count() == 4);
        third.begin();
        third.know();
        let fourth = seats.take(address(3));
        assert!(!fourth.is_spare() && seats.count() == 4);
        fourth.begin();
        fourth.know();
        let late = seats.take(address(4));
        assert!(late.is_spare(), "everybody is busy");
        third.end();
        assert!(!seats.take(address(4)).is_spare(), "whoever waits between two requests gives way at last");
        drop(silent);
    }

    #[test]
    fn an_address_has_its_own_limit_and_takes_from_itself() {
        let seats = Seats::new(100, 2);
        let other = seats.take(address(2));
        let own: Vec<Ticket> = (0..10).map(|_| seats.take(address(1))).collect();
        assert_eq!(seats.count(), 3);
        assert!(own.iter().all(|ticket| !ticket.is_spare()));
        drop((other, own));
        assert_eq!(seats.count(), 0);
    }

    #[test]
    fn spare_seats_are_few() {
        let seats = Seats::new(1, 1);
        let busy = seats.take(address(1));
        busy.begin();
        busy.know();
        let all: Vec<Ticket> = (0..200).map(|last| seats.take(address(last))).collect();
        assert!(all.iter().all(Ticket::is_spare));
        assert_eq!(seats.count(), 1 + SPARE);
    }

    #[test]
    fn this_machine_is_one_address() {
        let owner = |text: &str| owner_of(text.parse().unwrap());
        assert_eq!(owner("127.0.0.1"), owner("127.9.9.9"));
        assert_eq!(owner("::1"), owner("127.0.0.1"));
        assert_ne!(owner("10.0.0.1"), owner("10.0.0.2"));
    }
}

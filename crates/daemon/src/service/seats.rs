//! Seats for what goes on for long and costs much: event streams, dry runs. A tenant has a few, a token fewer, and some are never a tenant's, so that
//! operators always find one.

use crate::access::Caller;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SeatLimits {
    /// For everybody together.
    pub(crate) all: usize,
    /// For all tenants together.
    pub(crate) tenants: usize,
    /// For one tenant.
    pub(crate) tenant: usize,
    /// For one token of a tenant, and for one that is of none.
    pub(crate) token: usize,
    pub(crate) other_token: usize,
}

/// Whose seats are all taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    All,
    Tenant(usize),
    Token(usize),
}

#[derive(Default)]
struct Seated {
    all: usize,
    tenants: usize,
    by_tenant: BTreeMap<String, usize>,
    by_token: BTreeMap<String, usize>,
}

pub(crate) struct Seats {
    limits: SeatLimits,
    seated: Mutex<Seated>,
}

/// A seat, free again when it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    tenant: Option<String>,
    token: String,
}

impl Seats {
    pub(crate) fn new(limits: SeatLimits) -> Arc<Self> {
        Arc::new(Self { limits, seated: Mutex::new(Seated::default()) })
    }

    /// A seat for somebody.
    pub(crate) fn take(self: &Arc<Self>, who: &Caller) -> Result<Seat, Taken> {
        let mut seated = self.lock();
        let limits = &self.limits;
        let of_tenant = who.tenant.is_some();
        if seated.all >= limits.all || (of_tenant && seated.tenants >= limits.tenants) {
            return Err(Taken::All);
        }
        let own = who.tenant.as_ref().and_then(|tenant| seated.by_tenant.get(tenant)).copied().unwrap_or(0);
        if of_tenant && own >= limits.tenant {
            return Err(Taken::Tenant(limits.tenant));
        }
        let most = if of_tenant { limits.token } else { limits.other_token };
        if seated.by_token.get(&who.id).copied().unwrap_or(0) >= most {
            return Err(Taken::Token(most));
        }
        seated.all += 1;
        seated.tenants += usize::from(of_tenant);
        if let Some(tenant) = &who.tenant {
            *seated.by_tenant.entry(tenant.clone()).or_default() += 1;
        }
        *seated.by_token.entry(who.id.clone()).or_default() += 1;
        Ok(Seat { seats: Arc::clone(self), tenant: who.tenant.clone(), token: who.id.clone() })
    }

    /// Seats that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seated = self.seats.lock();
        seated.all = seated.all.saturating_sub(1);
        if let Some(tenant) = &self.tenant {
            seated.tenants = seated.tenants.saturating_sub(1);
            leave(&mut seated.by_tenant, tenant);
        }
        leave(&mut seated.by_token, &self.token);
    }
}

fn leave(seated: &mut BTreeMap<String, usize>, name: &str) {
    if let Some(count) = seated.get_mut(name) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            seated.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;

    fn of(tenant: &str, id: &str) -> Caller {
        Caller {
            name: id.into(),
            id: id.into(),
            scope: Scope::Tenant,
            tenant: Some(tenant.into()),
            address: None,
            job: None,
        }
    }

    #[test]
    fn some_seats_are_kept_for_others() {
        let seats = Seats::new(SeatLimits { all: 6, tenants: 5, tenant: 3, token: 2, other_token: 6 });
        let first = seats.take(&of("a", "a1")).ok().unwrap();
        let _second = seats.take(&of("a", "a1")).ok().unwrap();
        assert_eq!(seats.take(&of("a", "a1")).err(), Some(Taken::Token(2)));
        let _third = seats.take(&of("a", "a2")).ok().unwrap();
        assert_eq!(seats.take(&of("a", "a2")).err(), Some(Taken::Tenant(3)));
        let _others = [seats.take(&of("b", "b1")).ok().unwrap(), seats.take(&of("b", "b1")).ok().unwrap()];
        assert_eq!(seats.take(&of("c", "c1")).err(), Some(Taken::All), "the last is not for tenants");
        let _operator = seats.take(&Caller::loopback()).ok().unwrap();
        assert_eq!(seats.take(&Caller::loopback()).err(), Some(Taken::All));
        drop(first);
        assert_eq!(seats.taken(), 5);
        assert!(seats.take(&of("a", "a1")).is_ok());
    }
}

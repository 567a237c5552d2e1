//! Who is at the other end of a connection, as far as the connection itself tells.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remote {
    /// Somebody on the network, or on this machine through its network.
    Network(SocketAddr),
    /// A process of this machine, through the socket in the state folder.
    Local {
        /// The user that it runs as, as the kernel says.
        uid: Option<u32>,
        /// Whether that is the user of the daemon, or root: both can do as they like with the daemon anyway.
        owner: bool,
    },
}

impl Remote {
    /// The address that limits are kept by.
    pub(super) fn address(&self) -> IpAddr {
        match self {
            Self::Network(address) => address.ip(),
            Self::Local { .. } => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    /// Where it is in the network; `None` for a process that came through the socket.
    pub(super) fn network_address(&self) -> Option<IpAddr> {
        match self {
            Self::Network(address) => Some(address.ip()),
            Self::Local { .. } => None,
        }
    }

    /// Whether it needs no token.
    pub(super) fn is_owner(&self) -> bool {
        matches!(self, Self::Local { owner: true, .. })
    }

    /// Whether it is of this machine.
    pub(super) fn is_loopback(&self) -> bool {
        self.address().to_canonical().is_loopback()
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => address.fmt(out),
            Self::Local { uid: Some(uid), .. } => write!(out, "uid:{uid}"),
            Self::Local { uid: None, .. } => out.write_str("local"),
        }
    }
}

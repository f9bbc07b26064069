//! The HTTP transport: routes, health, metrics. It carries bytes to the gate and
//! back; it decides nothing about access.

mod control;
mod problem;
mod routes;
mod server;

pub use control::{Base64, Command, DriverReply, PushRequest, Reply};
pub use problem::Problem;
pub use routes::{MAX_BODY_BYTES, control_router, public_router};
pub use server::{Listener, serve};

//! A TCP proxy that cuts connections, and switches to another server on request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A proxy on a free port. Its threads end with the process.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) address: String,
    target: Arc<Mutex<String>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(super) fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap().to_string(),
            target: Arc::new(Mutex::new(target.to_owned())),
            open: Arc::default(),
        };
        let accepting = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                accepting.carry(client);
            }
        });
        proxy
    }

    /// Leads to another server from now on; what is open is cut.
    pub(super) fn lead_to(&self, target: &str) {
        target.clone_into(&mut self.target.lock().unwrap());
        self.cut();
    }

    /// Cuts every connection.
    pub(super) fn cut(&self) {
        for socket in self.open.lock().unwrap().drain(..) {
            socket.shutdown(Shutdown::Both).ok();
        }
    }

    fn carry(&self, client: TcpStream) {
        let target = self.target.lock().unwrap().clone();
        // A server that is away refuses: so does the proxy.
        let Ok(server) = TcpStream::connect(target) else { return };
        let twins = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let mut open = self.open.lock().unwrap();
        open.retain(|socket| socket.peer_addr().is_ok());
        open.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
        drop(open);
        std::thread::spawn(move || copy(client, server));
        std::thread::spawn(move || copy(twins.1, twins.0));
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}

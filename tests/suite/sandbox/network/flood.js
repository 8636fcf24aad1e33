// Runs inside the sandbox: opens ten thousand connections to the proxy, up to 700 at once.
'use strict';
const net = require('net');

const total = 10_000;
const atOnce = 700;
let tried = 0;
let refused = 0;
let open = 0;
let failed = 0;

const next = () => {
  while (open < atOnce && tried < total) {
    tried += 1;
    open += 1;
    const socket = net.connect(3128, '127.0.0.1');
    let answer = '';
    socket.on('data', (piece) => (answer += piece));
    socket.on('error', () => {
      failed += 1;
    });
    socket.on('close', () => {
      open -= 1;
      if (answer.startsWith('HTTP/1.1 503')) refused += 1;
      setImmediate(next);
    });
  }
};
// The proxy closes accepted connections that have been silent for long enough.
process.on('exit', () => console.log(JSON.stringify({ tried, refused, failed })));
next();

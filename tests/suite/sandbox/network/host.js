// The host in the far namespace: TLS with HTTP/1.1 and HTTP/2, a git repository, a resolver and a company's proxy.
'use strict';
const dgram = require('dgram');
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const net = require('net');
const path = require('path');
const mcp = require('./mcp_server.js');

const dir = process.argv[2];
const address = '203.0.113.10';
const log = (line) => fs.appendFileSync(path.join(dir, 'asked.log'), line + '\n');
// This process must end even if the test fails.
setTimeout(() => process.exit(1), 600_000);

const tls = {
  key: fs.readFileSync(path.join(dir, 'key.pem')),
  cert: fs.readFileSync(path.join(dir, 'ca.pem')),
  allowHTTP1: true,
};
const server = http2.createSecureServer(tls, (request, response) => {
  const host = (request.headers[':authority'] || request.headers.host).replace(/:443$/, '');
  log(`http ${host} ${request.url}`);
  if (request.url.startsWith('/mcp')) {
    mcp.serve(request, response, log);
    return;
  }
  if (request.url.startsWith('/repo.git/')) {
    const file = path.join(dir, path.normalize(request.url.split('?')[0]));
    if (!fs.existsSync(file) || !fs.statSync(file).isFile()) {
      response.writeHead(404);
      response.end();
      return;
    }
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.end(fs.readFileSync(file));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/plain' });
  response.end(`reached ${host} over ${request.httpVersion}`);
});

// Names below `trap.test` are on the tests' allow-list, but lead to forbidden addresses.
const names = {
  'allowed.test': '203.0.113.10',
  'api.below.test': '203.0.113.10',
  'below.test': '203.0.113.10',
  'denied.test': '203.0.113.10',
  'loop.trap.test': '127.0.0.1',
  'meta.trap.test': '169.254.169.254',
  'lan.trap.test': '10.1.2.3',
  'own.trap.test': '203.0.113.1',
  'tun.trap.test': '198.18.0.10',
  'vpn.trap.test': '100.64.0.10',
};
const resolver = dgram.createSocket('udp4', (query, asker) => {
  const labels = [];
  let at = 12;
  while (query[at] > 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + query[at]));
    at += query[at] + 1;
  }
  const name = labels.join('.');
  const kind = query.readUInt16BE(at + 1);
  log(`dns ${name}`);
  const found = names[name];
  const has = found !== undefined && kind === 1;
  const header = Buffer.from([query[0], query[1], 0x81, found ? 0x80 : 0x83, 0, 1, 0, has ? 1 : 0, 0, 0, 0, 0]);
  const parts = [header, query.subarray(12, at + 5)];
  if (has) {
    parts.push(Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]), Buffer.from(found.split('.').map(Number)));
  }
  resolver.send(Buffer.concat(parts), asker.port, asker.address);
});

const proxy = http.createServer((_, response) => response.writeHead(405).end());
proxy.on('connect', (request, client, head) => {
  log(`proxy ${request.url} ${request.headers['proxy-authorization'] || ''}`);
  const outside = net.connect(443, address, () => {
    client.write('HTTP/1.1 200 OK\r\n\r\n');
    outside.write(head);
    outside.pipe(client);
    client.pipe(outside);
  });
  outside.on('error', () => client.destroy());
  client.on('error', () => outside.destroy());
});

const listening = [
  new Promise((resolve) => server.listen(443, '0.0.0.0', resolve)),
  new Promise((resolve) => resolver.bind(53, address, resolve)),
  new Promise((resolve) => proxy.listen(8080, address, resolve)),
];
Promise.all(listening).then(() => fs.writeFileSync(path.join(dir, 'listening'), 'yes\n'));

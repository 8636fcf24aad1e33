// Runs inside the sandbox, as an agent would: each attempt prints one line of JSON, {"id": …, "got": …}.
'use strict';
const { execFileSync } = require('child_process');
const dgram = require('dgram');
const http2 = require('http2');
const https = require('https');
const net = require('net');

const tell = (id, got) => console.log(JSON.stringify({ id, got: String(got) }));
const cause = (error) => `failed ${(error.cause && error.cause.code) || error.code || error.message}`;

const viaFetch = async (url) => (await fetch(url)).text();
const viaHttps = (url) =>
  new Promise((resolve, reject) => {
    https.get(url, (response) => {
      let body = '';
      response.on('data', (piece) => (body += piece));
      response.on('end', () => resolve(body));
    }).on('error', reject);
  });
const viaHttp2 = (url) =>
  new Promise((resolve, reject) => {
    const session = http2.connect(url);
    session.on('error', reject);
    const stream = session.request({ ':path': '/' });
    let body = '';
    stream.on('data', (piece) => (body += piece));
    stream.on('end', () => {
      session.close();
      resolve(body);
    });
    stream.on('error', reject);
  });

const command = (program, ...args) => {
  try {
    return execFileSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 }).toString().trim();
  } catch (error) {
    return `failed ${error.status}: ${error.stderr.toString().trim().split('\n').pop()}`;
  }
};
const python = `
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile="ca.pem")
handlers = [urllib.request.HTTPSHandler(context=context)]
if sys.argv[2] == "direct":
    handlers.append(urllib.request.ProxyHandler({}))
try:
    print(urllib.request.build_opener(*handlers).open(sys.argv[1], timeout=60).read().decode())
except Exception as error:
    print("failed", error)
`;

// Resolves to everything that the peer answers to these bytes before it hangs up.
const exchange = (port, bytes) =>
  new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(bytes));
    const pieces = [];
    socket.on('data', (piece) => pieces.push(piece));
    socket.on('error', (error) => resolve(Buffer.from(error.code)));
    socket.on('close', () => resolve(Buffer.concat(pieces)));
  });
const tcp = (host, port) =>
  new Promise((resolve) => {
    const socket = net.connect({ host, port, timeout: 20_000 }, () => {
      socket.destroy();
      resolve('connected');
    });
    socket.on('timeout', () => {
      socket.destroy();
      resolve('silence');
    });
    socket.on('error', (error) => resolve(error.code));
  });

const sized = (width, content) => {
  const head = Buffer.alloc(width);
  head.writeUIntBE(content.length, 0, width);
  return Buffer.concat([head, content]);
};
const clientHello = (name) => {
  const entry = Buffer.concat([Buffer.from([0]), sized(2, name || Buffer.alloc(0))]);
  const extension = Buffer.concat([Buffer.from([0, 0]), sized(2, sized(2, entry))]);
  const body = Buffer.concat([
    Buffer.from([3, 3]), Buffer.alloc(32, 7), sized(1, Buffer.alloc(0)), sized(2, Buffer.from([0x13, 1])),
    sized(1, Buffer.from([0])), sized(2, name === null ? Buffer.alloc(0) : extension),
  ]);
  const message = Buffer.concat([Buffer.from([1]), sized(3, body)]);
  return Buffer.concat([Buffer.from([22, 3, 1]), sized(2, message)]);
};
const lookup = (labels) =>
  new Promise((resolve) => {
    const question = labels.map((label) => sized(1, label));
    const query = Buffer.concat([
      Buffer.from([9, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]), ...question, Buffer.from([0, 0, 1, 0, 1]),
    ]);
    const socket = dgram.createSocket('udp4');
    const timer = setTimeout(() => done('no answer'), 5_000);
    const done = (got) => {
      clearTimeout(timer);
      socket.close();
      resolve(got);
    };
    socket.on('message', (answer) => done((answer[3] & 0xf) === 3 ? 'no such name' : 'known'));
    socket.send(query, 53, '127.0.0.1');
  });

// Each is a denied name that a careless parser would take for an allowed one.
const smuggled = {
  nul: 'denied.test\0.below.test',
  'nul behind': 'allowed.test\0',
  'control byte': 'allowed\x01.test',
  'carriage return': 'allowed.test\r',
  'line feed': 'allowed.test\n',
  'trailing dot': 'allowed.test.',
  'upper case': 'Allowed.test',
  suffix: 'evilallowed.test',
  'suffix of a wildcard': 'evilbelow.test',
  'the wildcard itself': 'below.test',
  'name within': 'allowed.test.denied.test',
  address: '203.0.113.10',
  'loopback address': '127.0.0.1',
  'decimal address': '3405803786',
  'hex address': '0xcb00710a',
  'octal address': '0313.0.0161.012',
  'short address': '127.1',
  userinfo: 'allowed.test@denied.test',
  'userinfo in front': 'denied.test@allowed.test',
  percent: 'allowed.test%00',
  hash: 'denied.test#.below.test',
  backslash: 'denied.test\\.below.test',
  idn: 'allowеd.test',
  space: 'allowed.test ',
  empty: '',
};

const main = async () => {
  for (const name of ['allowed.test', 'api.below.test', 'denied.test', 'below.test']) {
    const url = `https://${name}`;
    tell(`fetch ${name}`, await viaFetch(url).catch(cause));
    tell(`https ${name}`, await viaHttps(url).catch(cause));
    tell(`http2 ${name}`, await viaHttp2(url).catch(cause));
    for (const way of ['proxied', 'direct']) {
      const direct = way === 'direct' ? ['--noproxy', '*'] : [];
      tell(`curl ${way} ${name}`, command('curl', '-sS', '--cacert', 'ca.pem', ...direct, url));
      const noProxy = way === 'direct' ? ['-c', 'http.proxy='] : [];
      tell(`git ${way} ${name}`,
        command('git', '-c', 'http.sslCAInfo=ca.pem', ...noProxy, 'ls-remote', `${url}/repo.git`, 'HEAD'));
      tell(`python ${way} ${name}`, command('python3', '-c', python, url, way));
    }
  }
  for (const name of ['loop', 'meta', 'lan', 'own']) {
    tell(`trap tls ${name}`, await viaFetch(`https://${name}.trap.test`).catch(cause));
    tell(`trap connect ${name}`, (await exchange(3128, `CONNECT ${name}.trap.test:443 HTTP/1.1\r\n\r\n`)).toString());
  }
  tell('tcp host', await tcp('203.0.113.10', 443));
  tell('tcp metadata', await tcp('169.254.169.254', 80));
  tell('tcp supervisor', await tcp('203.0.113.1', 443));
  tell('tcp port 22', await tcp('127.0.0.1', 22));
  tell('connect port 22', (await exchange(3128, 'CONNECT allowed.test:22 HTTP/1.1\r\n\r\n')).toString());
  tell('plain http', (await exchange(3128, 'GET http://169.254.169.254/latest HTTP/1.1\r\n\r\n')).toString());
  tell('no server name', (await exchange(443, clientHello(null))).toString('hex'));
  for (const [id, name] of Object.entries(smuggled)) {
    const bytes = Buffer.from(name);
    tell(`smuggled tls ${id}`, (await exchange(443, clientHello(bytes))).toString('hex'));
    const head = Buffer.concat([Buffer.from('CONNECT '), bytes, Buffer.from(':443 HTTP/1.1\r\n\r\n')]);
    tell(`smuggled connect ${id}`, (await exchange(3128, head)).toString().split('\r\n')[0]);
    // DNS can write neither a final dot nor an empty name, but a label can contain a dot.
    const labels = ['trailing dot', 'empty'].includes(id) ? [Buffer.from('allowed.test')] : name.split('.').map((l) => Buffer.from(l));
    tell(`smuggled dns ${id}`, await lookup(labels));
  }
};
main().then(() => tell('done', 'yes'), (error) => tell('done', error.stack));

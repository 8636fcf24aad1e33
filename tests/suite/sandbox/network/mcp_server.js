// An MCP server over streamable HTTP that insists on the protocol: a client that leaves something out gets an error.
//
//   /mcp            answers as JSON          /mcp/login     wants a login
//   /mcp/stream     answers as a stream      /mcp/silent    never answers
//   ?tools=N        has N tools              /mcp/endless   never stops answering
'use strict';
const crypto = require('crypto');

const VERSION = '2025-06-18';
// For each session: has the client said that it is ready, and has it answered a ping?
const sessions = new Map();

const answers = {
  'tools/list': (_, { query }) => {
    const names = ['tell'];
    while (names.length < Number(query.get('tools') || 1)) names.push(`t${names.length}`);
    return { tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) };
  },
  'tools/call': ({ name, arguments: { word } }, { headers, session }) => {
    const text = `${name} heard ${word} from ${headers.authorization}, pinged ${session.pinged}`;
    return { content: [{ type: 'text', text }], isError: false };
  },
};

exports.serve = (request, response, log) => {
  const url = new URL(request.url, 'https://here');
  const end = (status, headers, body) => {
    log(`mcp ${request.method} ${url.pathname} ${status}`);
    response.writeHead(status, headers);
    response.end(body);
  };
  const refuse = (why) => end(400, { 'content-type': 'text/plain' }, why);
  if (url.pathname === '/mcp/login') return end(401, { 'www-authenticate': 'Bearer' });
  if (url.pathname === '/mcp/silent') return log('mcp silent');
  if (url.pathname === '/mcp/endless') {
    response.writeHead(200, { 'content-type': 'application/json' });
    const more = () => { while (response.write(Buffer.alloc(65536, 0x20))); };
    response.on('drain', more);
    return more();
  }
  const id = request.headers['mcp-session-id'];
  if (request.method === 'DELETE') return end(sessions.delete(id) ? 204 : 404);
  if (request.method !== 'POST') return end(405);
  const accepted = request.headers.accept || '';
  if (!accepted.includes('application/json') || !accepted.includes('text/event-stream')) return end(406);
  if (request.headers['content-type'] !== 'application/json') return end(415);

  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const message = JSON.parse(Buffer.concat(parts).toString('utf8'));
    if (message.method === 'initialize') {
      const fresh = crypto.randomUUID();
      sessions.set(fresh, { ready: false, pinged: false });
      const serverInfo = { name: 'world', version: '1' };
      const result = { protocolVersion: VERSION, capabilities: { tools: {} }, serverInfo };
      return reply(message.id, result, { 'mcp-session-id': fresh });
    }
    const session = sessions.get(id);
    if (!session) return end(404);
    if (request.headers['mcp-protocol-version'] !== VERSION) return refuse('no version');
    if (message.method === 'notifications/initialized') session.ready = true;
    if (message.id === 'ping') session.pinged = true;
    if (message.id === undefined || message.method === undefined) return end(202);
    if (!session.ready) return refuse('not initialized');
    const asker = { query: url.searchParams, headers: request.headers, session };
    reply(message.id, answers[message.method](message.params, asker), {});
  });

  function reply(to, result, headers) {
    const answer = JSON.stringify({ jsonrpc: '2.0', id: to, result });
    if (url.pathname !== '/mcp/stream') return end(200, { 'content-type': 'application/json', ...headers }, answer);
    log(`mcp ${request.method} ${url.pathname} stream`);
    response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
    response.write(': a comment\n\nevent: message\ndata: {"jsonrpc":"2.0","id":"ping",\ndata: "method":"ping"}\n\n');
    // The stream stays open: the client waits for the answer, not for the end.
    response.write(`id: 7\r\ndata: ${answer}\r\n\r\n`);
  }
};

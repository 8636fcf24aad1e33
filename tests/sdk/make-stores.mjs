// Writes stores with Cursor's own SDK, through its public API and without a key or network, for
// `crates/cursor-stores/src/sdk/real_sdk_tests.rs` to read. Neither the SDK nor its stores are part of the project.
//
//   mkdir /tmp/sdk && cd /tmp/sdk && npm install @cursor/sdk@1.0.18
//   unshare -rn node tests/sdk/make-stores.mjs /tmp/sdk /tmp/sdk-stores/1.0.18
//   CARETAKER_SDK_STORES=/tmp/sdk-stores cargo test -p cursor-stores sdk
//
// Tried with 1.0.9, 1.0.18 (node 20) and 1.0.32 (node 22.13 or newer). Each version gets its own directory below
// CARETAKER_SDK_STORES: a home with `.cursor/projects`, and `expected.json`, which lists what the script wrote.

import { fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative, resolve } from 'node:path';

const [installed, out, onlyKilled] = process.argv.slice(2).map((argument) => resolve(argument));
if (!out) throw new Error('usage: make-stores.mjs <directory with node_modules> <output directory>');
const require = createRequire(join(installed, 'package.json'));
const home = join(out, 'home');
process.env.HOME = home;

const sdk = require('@cursor/sdk');
// A separate entry point since 1.0.19. Version 1.0.9 does not have this store at all.
const isPublic = (name) => { try { return require.resolve(name); } catch { return false; } };
const { SqliteLocalAgentStore } = isPublic('@cursor/sdk/sqlite') ? require('@cursor/sdk/sqlite') : sdk;
const model = { id: 'gpt-5.5', params: [{ id: 'reasoning', value: 'high' }] };
const usage = { inputTokens: 11, outputTokens: 22, cacheReadTokens: 33, cacheWriteTokens: 0, totalTokens: 66, reasoningTokens: 5 };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// --- protobuf and blobs: as little as a checkpoint needs ---

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();
const field1 = (id) => Buffer.concat([Buffer.from([0x0a, 0x20]), id]);
const jsonBlob = (value) => Buffer.from(JSON.stringify(value));
const rootOf = (messages) => Buffer.concat(messages.map((message) => field1(sha256(message))));

/** The messages that a checkpoint would hold after these turns. */
function promptMessages(turns) {
  const messages = [
    jsonBlob({ role: 'system', content: 'You are the system prompt.' }),
    jsonBlob({ role: 'user', content: '<user_info>\nOS Version: linux\n</user_info>' }),
  ];
  for (const turn of turns) {
    messages.push(jsonBlob({ role: 'user', content: [{ type: 'text', text: `<user_query>\n${turn.prompt}\n</user_query>` }] }));
    messages.push(jsonBlob({ role: 'assistant', id: '1', content: [{ type: 'text', text: turn.reply }] }));
  }
  return messages;
}

// --- messages ---

const message = (agentId, runId, fields) => ({ agent_id: agentId, run_id: runId, ...fields });
const text = (role, words) => ({ type: role, message: { role, content: [{ type: 'text', text: words }] } });

/** A turn as the SDK's own runtime streams it: text and thinking in pieces, a tool call in steps. */
function fullTurn(prompt) {
  const reply = `Die Antwort auf ${prompt}: fertig ✓`;
  return {
    prompt,
    reply,
    messages: [
      { type: 'system', subtype: 'init', model, tools: ['shell', 'read'] },
      { type: 'status', status: 'RUNNING' },
      text('user', prompt),
      { type: 'thinking', text: 'Let me th' },
      { type: 'thinking', text: 'ink.' },
      { type: 'thinking', text: '', thinking_duration_ms: 1234 },
      text('assistant', 'I look fir'),
      text('assistant', 'st.'),
      { type: 'tool_call', call_id: `call-1-${prompt}`, name: 'shell', status: 'running', args: { command: 'l' } },
      { type: 'tool_call', call_id: `call-1-${prompt}`, name: 'shell', status: 'running', args: { command: 'ls -l' } },
      { type: 'tool_call', call_id: `call-2-${prompt}`, name: 'read', status: 'running', args: { path: 'a.txt' } },
      {
        type: 'tool_call', call_id: `call-1-${prompt}`, name: 'shell', status: 'completed', args: {},
        result: { status: 'success', value: { exitCode: 0, signal: '', stdout: 'a.txt', stderr: '', executionTime: 7 } },
      },
      {
        type: 'tool_call', call_id: `call-2-${prompt}`, name: 'read', status: 'error', args: { path: 'a.txt' },
        result: { status: 'error', error: { message: 'no such file' } },
      },
      text('assistant', reply.slice(0, 9)),
      text('assistant', reply.slice(9)),
      { type: 'request', request_id: `request-${prompt}` },
      { type: 'usage', usage },
      { type: 'status', status: 'FINISHED' },
    ],
    expected: [
      { role: 'user', parts: [{ text: prompt }] },
      {
        role: 'assistant',
        parts: [
          { reasoning: 'Let me think.', ms: 1234 },
          { text: 'I look first.' },
          { tool: 'shell', input: { command: 'ls -l' }, state: 'succeeded', output: { exitCode: 0, signal: '', stdout: 'a.txt', stderr: '', executionTime: 7 } },
          { tool: 'read', input: { path: 'a.txt' }, state: 'failed', error: 'no such file' },
        ],
      },
      { role: 'assistant', parts: [{ text: reply }] },
    ],
  };
}

/** As `fullTurn`, but without a `user` event: the prompt is in the checkpoint only. */
function promptlessTurn(prompt) {
  const turn = fullTurn(prompt);
  return { ...turn, messages: turn.messages.filter(({ type }) => type !== 'user' && type !== 'usage') };
}

const expected = [];
const knowsUsage = (turn) => turn.messages.some(({ type }) => type === 'usage');

function expect(store, agent, activity, shelf, turns) {
  expected.push({
    store: relative(out, store),
    id: agent.agentId,
    title: agent.name,
    workspace: agent.cwd,
    activity,
    shelf,
    turns: turns.map(({ state, error, turn }) => ({
      state,
      error,
      model: 'gpt-5.5',
      tokens: turn && knowsUsage(turn) ? { input: 11, output: 22, cache_read: 33, cache_write: 0, reasoning: 5 } : undefined,
    })),
    messages: turns.flatMap(({ turn, expected: said }) => said ?? turn.expected),
  });
}

// --- the platform, which applications use in all versions of the SDK ---

async function writePlatform(workspaceRef, agentSuffix, ending) {
  const platform = await sdk.createAgentPlatform({ workspaceRef });
  const { store, checkpointStore, eventStore } = platform;
  const name = `Platform ${agentSuffix}`;
  const { agent, run } = await store.createAgent({ workspaceRef, name, model, metadata: { origin: 'make-stores' } });
  const agentId = agent.agentId;
  const turns = [fullTurn(`eins ${agentSuffix}`), promptlessTurn(`zwei ${agentSuffix}`), fullTurn(`drei ${agentSuffix}`)];

  const checkpoint = async (runId, count) => {
    const messages = promptMessages(turns.slice(0, count));
    const blobs = await checkpointStore.getBlobStore(agentId);
    for (const blob of messages) await blobs.setBlob(sdk.ctx ?? {}, sha256(blob), blob);
    const root = rootOf(messages);
    const reference = await checkpointStore.saveCheckpoint(agentId, { toBinary: () => root, clone() { return this; } });
    await store.patchCheckpoint(agentId, runId, reference);
  };
  const play = async (runId, turn) => {
    await store.markRunStarting(agentId, runId, {});
    for (const said of turn.messages) await platform.appendRunMessage(message(agentId, runId, said));
  };
  const end = async (runId, status) => {
    const envelope = { schemaVersion: 1, agentId, runId };
    const payload = { ...envelope, type: 'result', status };
    await eventStore.appendRunEvent({ runId, eventType: 'run_stream_event', payload });
    await eventStore.appendRunEvent({ runId, eventType: 'run_stream_event', payload: { ...envelope, type: 'done' } });
  };

  await play(run.runId, turns[0]);
  await checkpoint(run.runId, 1);
  await end(run.runId, 'finished');
  await store.markRunTerminal(agentId, run.runId, { status: 'FINISHED', result: turns[0].reply, usage });
  await sleep(3);
  const second = await store.createFollowUpRun(agentId, { model });
  await play(second.runId, turns[1]);
  await checkpoint(second.runId, 2);
  await store.markRunTerminal(agentId, second.runId, { status: 'FINISHED', result: turns[1].reply });
  await sleep(3);
  const third = await store.createFollowUpRun(agentId, { model });
  const half = { ...turns[2], messages: turns[2].messages.slice(0, 11) };
  await play(third.runId, half);

  const halfSaid = [turns[2].expected[0], {
    role: 'assistant',
    parts: [
      ...turns[2].expected[1].parts.slice(0, 2),
      { tool: 'shell', input: { command: 'ls -l' }, state: ending === 'CANCELLED' ? 'cancelled' : ending === 'KILLED' ? 'pending' : 'unknown' },
      { tool: 'read', input: { path: 'a.txt' }, state: ending === 'CANCELLED' ? 'cancelled' : ending === 'KILLED' ? 'pending' : 'unknown' },
    ],
  }];
  const [activity, shelf, state, error] = {
    ERROR: ['failed', 'shown', 'failed', 'boom'],
    CANCELLED: ['idle', 'archived', 'cancelled', undefined],
    KILLED: ['interrupted', 'shown', 'running', undefined],
  }[ending];
  if (ending === 'ERROR') await store.markRunTerminal(agentId, third.runId, { status: 'ERROR', errorCode: 'boom' });
  if (ending === 'CANCELLED') {
    await store.cancelRun(agentId, third.runId);
    await store.archiveAgent(agentId);
  }
  const root = stateRoot(workspaceRef);
  expect(root, { agentId, name, cwd: workspaceRef }, activity, shelf, [
    { state: 'finished', turn: turns[0] },
    { state: 'finished', turn: turns[1] },
    { state, error, turn: half, expected: halfSaid },
  ]);
}

function stateRoot(workspaceRef) {
  if (sdk.getDefaultSdkStateRoot) return sdk.getDefaultSdkStateRoot(workspaceRef);
  const slug = workspaceRef.replace(/[^A-Za-z0-9]+/g, '-').replace(/^-+|-+$/g, '');
  const hash = createHash('md5').update(workspaceRef).digest('hex');
  return join(home, '.cursor', 'projects', slug, 'sdk-agent-store', hash);
}

// --- the public stores ---

async function writeStore(store, root, cwd, suffix) {
  const agentId = `agent-${suffix}`;
  const name = `Store ${suffix}`;
  const turns = [fullTurn(`uno ${suffix}`), promptlessTurn(`dos ${suffix}`)];
  const at = Date.now() - 60_000;
  const agent = { agentId, cwd, status: 'idle', name, createdAt: at, updatedAt: at, activeRunId: null, latestCheckpoint: null, sdkMetadata: { origin: 'make-stores' } };
  await store.agents.create({ agent });
  let reference = null;
  for (const [index, turn] of turns.entries()) {
    const runId = `run-${suffix}-${index}`;
    const messages = promptMessages(turns.slice(0, index + 1));
    const known = new Set((await store.checkpoints.list({ filter: { agentIds: [agentId] } })).items);
    for (const blob of [...messages, rootOf(messages)]) {
      const blobId = sha256(blob).toString('hex');
      if (!known.has(blobId)) await store.checkpoints.create({ agentId, blobId, data: blob });
    }
    const started = at + 1000 * index;
    const run = {
      runId, agentId, turnNumber: index, status: 'running', model, createdAt: started, updatedAt: started, startedAt: started,
      requestId: `request-${turn.prompt}`, startCheckpointRef: reference, latestCheckpointRef: reference,
    };
    await store.runs.create({ run });
    for (const said of turn.messages) {
      const payload = { schemaVersion: 1, type: 'sdk_message', agentId, runId, message: message(agentId, runId, said) };
      await store.runEvents.append({ runId, eventType: 'run_stream_event', payload });
    }
    reference = { schemaVersion: 1, rootBlobId: sha256(rootOf(messages)).toString('hex') };
    await store.runs.update({
      run: { ...run, status: 'finished', result: turn.reply, endedAt: started + 500, updatedAt: started + 500, latestCheckpointRef: reference, usage: knowsUsage(turn) ? usage : null },
    });
    await store.agents.update({ agent: { ...agent, latestCheckpoint: reference, updatedAt: started + 500 } });
  }
  expect(root, agent, 'idle', 'shown', turns.map((turn) => ({ state: 'finished', turn })));
}

// --- everything ---

if (onlyKilled) {
  await writePlatform('/home/dev/killed', 'killed', 'KILLED');
  process.send(expected);
  await sleep(50);
  process.kill(process.pid, 'SIGKILL');
}

rmSync(out, { recursive: true, force: true });
mkdirSync(home, { recursive: true });
await writePlatform('/home/dev/My Project.v2_x', 'failed', 'ERROR');
await writePlatform('/home/dev/My Project.v2_x', 'cancelled', 'CANCELLED');
const child = fork(import.meta.filename ?? process.argv[1], [installed, out, 'killed']);
const ended = new Promise((done) => child.once('exit', done));
child.on('message', (killed) => expected.push(...killed));
await ended;
if (SqliteLocalAgentStore) {
  const workspaceRef = '/home/dev/public';
  const store = await SqliteLocalAgentStore.open({ workspaceRef });
  await writeStore(store, store.stateRoot, workspaceRef, 'sqlite');
  await store.dispose();
}
if (sdk.JsonlLocalAgentStore) {
  const root = join(out, 'lines');
  mkdirSync(root, { recursive: true });
  await writeStore(new sdk.JsonlLocalAgentStore(root), root, '/home/dev/lines', 'lines');
}
writeFileSync(join(out, 'expected.json'), JSON.stringify(expected, null, 2));
console.log(`${expected.length} conversations in ${out}`);
process.exit(0);

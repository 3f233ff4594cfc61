import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { LEGACY, legacyClient, modernClient, send } from '../fixtures/raw-client.ts';
import { LIST_END } from '../fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../fixtures/raw-upstream.ts';
import type { HostileCase, HostileTarget } from './hostile-case.ts';
import { type StallingUpstream, startStallingUpstream } from './stalling-upstream.ts';

/** Use up a quota of a total; fail unless another owner still gets something. */
export function quotaCases(discovered: Discovered): HostileCase[] {
  const shared = (
    name: string,
    sent: (target: HostileTarget, discovered: Discovered) => Promise<string>,
  ): HostileCase => ({
    name,
    group: 'many connections and sessions',
    isComparable: false,
    send: (_peers, target) => sent(target, discovered),
  });
  return [
    shared('300 subscriptions with long uris in one namespace', subscribe),
    shared('300 resumable streams of 250 kB in one namespace', leaveStreams),
    shared('one user in two namespaces with 1,000 suspended calls', suspendCalls),
  ];
}

/** Registers an upstream in a namespace of the same name; returns the state of its forward. */
type Discovered = (target: HostileTarget, name: string, address: string) => Promise<string>;

function remove(target: HostileTarget, name: string): Promise<unknown> {
  return send(`${target.management}/api/v1/namespaces/${name}?cascade=true`, 'DELETE');
}

/** 72 MB of uris; the limit is 64 MiB, of which one owner gets two thirds. */
async function subscribe(target: HostileTarget, discovered: Discovered): Promise<string> {
  const upstream = await startRawUpstream({
    eras: ['legacy'],
    scripts: {
      initialize: `{"protocolVersion":"${LEGACY}","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"u","version":"1"}}`,
      'resources/list': `{"resources":[{"uri":"r://a","name":"a"}],${LIST_END}`,
      'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"r://{+x}","name":"all"}],${LIST_END}`,
      'resources/subscribe': '{}',
    },
  });
  try {
    for (const name of ['watched', 'watched-too']) await discovered(target, name, upstream.url);
    const params = (at: number) => JSON.stringify({ uri: `r://${at}${'x'.repeat(240_000)}` });
    let accepted = 0;
    for (let at = 0; at < 300; at++) {
      // The state of a session is limited too.
      const client = await legacyClient(`${target.mcp}/watched/mcp`);
      const { text } = await client.call('resources/subscribe', params(at));
      if (text.includes('"result"')) accepted++;
    }
    if (accepted < 150) throw new Error(`only ${accepted} of 300 subscriptions were accepted`);
    const other = await legacyClient(`${target.mcp}/watched-too/mcp`);
    const { text } = await other.call('resources/subscribe', params(0));
    if (!text.includes('"result"')) throw new Error(`another namespace was refused: ${text.slice(0, 200)}`);
    return `${accepted} of 300 accepted, another namespace as well`;
  } finally {
    for (const name of ['watched', 'watched-too']) await remove(target, name);
    await upstream.close();
  }
}

/** 75 MB of responses that nobody has read; the limit is 64 MiB. */
async function leaveStreams(target: HostileTarget, discovered: Discovered): Promise<string> {
  const progress = (progressToken: unknown) => ({
    method: 'notifications/progress',
    params: { progressToken, progress: 1 },
  });
  const [many, few] = [await startStallingUpstream(progress), await startStallingUpstream(progress)];
  try {
    await discovered(target, 'left', many.url);
    await discovered(target, 'left-too', few.url);
    const lastId = await leaveCall(`${target.mcp}/left-too/mcp`);
    for (let at = 0; at < 300; at += 20) {
      await Promise.all(Array.from({ length: 20 }, () => leaveCall(`${target.mcp}/left/mcp`)));
    }
    await many.release('x'.repeat(250_000));
    await few.release('the response');
    const { text } = await send(`${target.mcp}/left-too/mcp`, 'GET', {
      ...lastId.headers,
      accept: 'text/event-stream',
      'last-event-id': lastId.id,
    });
    if (!text.includes('the response'))
      throw new Error(`the response of another namespace is lost: ${text.slice(0, 200)}`);
    return 'the response of another namespace was stored';
  } finally {
    for (const name of ['left', 'left-too']) await remove(target, name);
    for (const upstream of [many, few]) upstream.close();
  }
}

/** Disconnects after the first event of a call; returns the id of that event and the headers of its session. */
async function leaveCall(url: string): Promise<{ id: string; headers: Readonly<Record<string, string>> }> {
  const { headers } = await legacyClient(url);
  const call = request(url, {
    method: 'POST',
    agent: false,
    headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  });
  call.on('error', () => undefined);
  call.end('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}');
  const [response] = await once(call, 'response');
  let text = '';
  for await (const chunk of response) {
    text += chunk;
    if (text.includes('notifications/progress')) break;
  }
  call.destroy();
  return { id: [...text.matchAll(/^id: ?(.+)$/gm)].at(-1)?.[1] ?? '', headers };
}

/** The limit is 1,000 suspended calls, of which one user gets two thirds. */
async function suspendCalls(target: HostileTarget, discovered: Discovered): Promise<string> {
  const elicitation = () => ({
    id: 'ask',
    method: 'elicitation/create',
    params: { message: 'm', requestedSchema: { type: 'object', properties: {} } },
  });
  const names = ['asking', 'asking-too', 'asked'];
  const upstreams: StallingUpstream[] = [];
  for (const _ of names) upstreams.push(await startStallingUpstream(elicitation));
  try {
    for (const [at, name] of names.entries()) await discovered(target, name, upstreams[at]?.url ?? '');
    const call = async (name: string, user: string) => {
      const client = modernClient(`${target.mcp}/${name}/mcp`, '{"elicitation":{"form":{}}}');
      const { text } = await client.call('tools/call', '{"name":"a","arguments":{}}', { 'x-forwarded-user': user });
      return text.includes('input_required');
    };
    let suspended = 0;
    for (let at = 0; at < 1_000; at += 20) {
      const name = at % 40 === 0 ? 'asking' : 'asking-too';
      const results = await Promise.all(Array.from({ length: 20 }, () => call(name, 'one')));
      suspended += results.filter(Boolean).length;
    }
    if (suspended < 500) throw new Error(`only ${suspended} of 1000 calls were suspended`);
    if (!(await call('asked', 'another'))) throw new Error('the call of another user was not suspended');
    return `${suspended} of 1000 calls were suspended, that of another user as well`;
  } finally {
    for (const upstream of upstreams) upstream.close();
    // The calls end with their connections.
    await delay(100);
    for (const name of names) await remove(target, name);
  }
}

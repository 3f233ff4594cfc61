import { EventEmitter } from 'node:events';
import { TokenSealer } from '@sluice/protocol/seal';
import { describe, expect, it } from 'vitest';
import type { ResponseLike } from '../http/exchange.ts';
import { acceptedTypes, NO_CLIENT } from '../upstreams/client-facts.ts';
import { ClientSink } from './client-sink.ts';
import { OpenResponses, OpenWriter } from './open-responses.ts';
import { ResponseWriter } from './response.ts';
import { EventStore } from './sessions/event-store.ts';

const OWNER = { id: 's', holder: { namespace: 'n', name: '' } };

/** A client whose read speed the test controls. */
class Client extends EventEmitter implements ResponseLike {
  destroyed = false;
  writableEnded = false;
  headersSent = false;
  reads = true;
  readonly written: string[] = [];
  readonly buffers: Buffer[] = [];

  writeHead(status: number, headers: readonly string[]): void {
    this.headersSent = true;
    this.written.push(`${status} ${headers[1]}`);
  }

  write(chunk: string | Buffer): boolean {
    this.written.push(String(chunk));
    if (typeof chunk !== 'string') this.buffers.push(chunk);
    return this.reads;
  }

  end(chunk?: string | Buffer): void {
    if (chunk !== undefined) this.written.push(String(chunk));
    this.writableEnded = true;
  }

  cork(): void {}

  uncork(): void {}

  destroy(): void {
    this.destroyed = true;
  }
}

/** A response to a client that waits. */
function waiting(accept: string | undefined, resumable: boolean) {
  const client = new Client();
  const events = new EventStore(new TokenSealer(Buffer.alloc(32)), 'replica');
  const writer = new ResponseWriter(client, [], '1');
  if (resumable) writer.openStream = () => events.open(OWNER, '1') ?? expect.unreachable();
  const responses = new OpenResponses();
  const open = new OpenWriter(responses, writer, resumable);
  responses.add(open, performance.now());
  const response = new ClientSink(writer, { ...NO_CLIENT, accepts: acceptedTypes(accept) }, open);
  response.onDisconnect(() => undefined);
  return { response, open, responses, client, written: client.written, events };
}

const HEAD = '200 text/event-stream';
const COMMENT = ':\n\n';

describe.each([
  ['that cannot be resumed', false],
  ['that can be resumed', true],
])('a response without an answer, on a stream %s', (_what, resumable) => {
  const first = resumable ? expect.stringMatching(/^id: .+\ndata: \n\n$/) : COMMENT;

  it('begins its stream, and has one comment at a time', () => {
    const { open, written, events } = waiting('text/event-stream', resumable);
    expect([open.keepAlive(), open.keepAlive(), open.keepAlive()]).toEqual([true, true, true]);
    expect(written).toEqual([HEAD, first, COMMENT, COMMENT]);
    events.close();
  });

  it('has no pile of comments for a client that does not read', () => {
    const { open, written, client, events } = waiting('text/event-stream', resumable);
    open.keepAlive();
    client.reads = false;
    for (let at = 0; at < 100; at++) expect(open.keepAlive()).toBe(true);
    expect(written).toEqual([HEAD, first, COMMENT]);
    client.reads = true;
    client.emit('drain');
    open.keepAlive();
    expect(written).toEqual([HEAD, first, COMMENT, COMMENT]);
    events.close();
  });

  it('has no comment in a result that is being sent, nor after the end', () => {
    const { response, open, written, events } = waiting(undefined, resumable);
    open.keepAlive();
    const body = response.startBody(undefined, true);
    body?.write([Buffer.from('{"a":\r\n'), Buffer.from('1\n')], () => undefined);
    open.keepAlive();
    expect(written.slice(2)).toEqual(['event: message\ndata: ', '{"a":  ', '1 ']);
    body?.write([Buffer.from('}')], () => undefined);
    response.complete({ kind: 'sent', value: {} });
    expect(open.hasEnded).toBe(true);
    expect(written.slice(2).join('')).toMatch(/^event: message\ndata: \{"a": {2}1 \}(\nid: .+)?\n\n$/);
    events.close();
  });
});

it('a response to a client that accepts JSON alone stays silent, as does a JSON response that has begun', () => {
  const jsonOnly = { ...NO_CLIENT, accepts: acceptedTypes('application/json') };
  const responses = new OpenResponses();
  expect(responses.keepOpen(new ResponseWriter(new Client(), [], '1'), jsonOnly, 0)).toBeUndefined();
  expect(responses.size).toBe(0);
  const { response, open, written } = waiting('*/*', false);
  response.startBody(undefined, false);
  expect([open.keepAlive(), written]).toEqual([false, ['200 application/json']]);
});

it('a response leaves the list when its connection closes', () => {
  const { responses, client } = waiting('*/*', false);
  expect(responses.size).toBe(1);
  client.emit('close');
  expect(responses.size).toBe(0);
});

it('a response whose stream is dropped calls every listener of the disconnect', () => {
  const { response } = waiting('*/*', true);
  const called: string[] = [];
  for (const name of ['a', 'b']) response.onDisconnect(() => called.push(name));
  response.writer.onDropped?.();
  expect(called).toEqual(['a', 'b']);
});

it('a large list on an event stream is sent as the bytes that all clients get', () => {
  const client = new Client();
  const writer = new ResponseWriter(client, [], '1');
  writer.startStream();
  const json = Buffer.from('{"tools":[]}');
  writer.sendResult({ json });
  expect(client.written.join('')).toBe(
    `${HEAD}event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}\n\n`,
  );
  expect(client.buffers[1]).toBe(json);
  expect(client.writableEnded).toBe(true);
});

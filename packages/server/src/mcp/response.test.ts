import { EventEmitter } from 'node:events';
import { TokenSealer } from '@sluice/protocol/seal';
import { describe, expect, it } from 'vitest';
import type { ResponseLike } from '../http/exchange.ts';
import { OpenResponses } from './open-responses.ts';
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

  writeHead(status: number, headers: readonly string[]): void {
    this.written.push(`${status} ${headers[1]}`);
  }

  write(chunk: string | Buffer): boolean {
    this.written.push(String(chunk));
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
  const openStream = resumable ? (idText: string) => events.open(OWNER, idText) : undefined;
  const response = new ResponseWriter(client, [], '1', openStream);
  const responses = new OpenResponses();
  response.keepOpen(responses, accept, performance.now(), resumable);
  response.onDisconnect(() => undefined);
  return { response, responses, client, written: client.written, events };
}

const HEAD = '200 text/event-stream';
const COMMENT = ':\n\n';

describe.each([
  ['that cannot be resumed', false],
  ['that can be resumed', true],
])('a response without an answer, on a stream %s', (_what, resumable) => {
  const first = resumable ? expect.stringMatching(/^id: .+\ndata: \n\n$/) : COMMENT;

  it('begins its stream, and has one comment at a time', () => {
    const { response, written, events } = waiting('text/event-stream', resumable);
    expect([response.keepAlive(), response.keepAlive(), response.keepAlive()]).toEqual([true, true, true]);
    expect(written).toEqual([HEAD, first, COMMENT, COMMENT]);
    events.close();
  });

  it('has no pile of comments for a client that does not read', () => {
    const { response, written, client, events } = waiting('text/event-stream', resumable);
    response.keepAlive();
    client.reads = false;
    for (let at = 0; at < 100; at++) expect(response.keepAlive()).toBe(true);
    expect(written).toEqual([HEAD, first, COMMENT]);
    client.reads = true;
    client.emit('drain');
    response.keepAlive();
    expect(written).toEqual([HEAD, first, COMMENT, COMMENT]);
    events.close();
  });

  it('has no comment in a result that is being sent, nor after the end', () => {
    const { response, written, events } = waiting(undefined, resumable);
    response.keepAlive();
    const body = response.startBody(undefined, true);
    body?.write([Buffer.from('{"a":\r\n'), Buffer.from('1\n')], () => undefined);
    response.keepAlive();
    expect(written.slice(2)).toEqual(['event: message\ndata: ', '{"a":  ', '1 ']);
    body?.write([Buffer.from('}')], () => undefined);
    response.complete({ kind: 'sent', value: {} });
    expect(response.hasEnded).toBe(true);
    expect(written.slice(2).join('')).toMatch(/^event: message\ndata: \{"a": {2}1 \}(\nid: .+)?\n\n$/);
    events.close();
  });
});

it('a response to a client that accepts JSON alone stays silent, as does a JSON response that has begun', () => {
  const { response, written } = waiting('application/json', false);
  expect([response.keepAlive(), written]).toEqual([false, []]);
  const begun = waiting('*/*', false);
  begun.response.startBody(undefined, false);
  expect([begun.response.keepAlive(), begun.written]).toEqual([false, ['200 application/json']]);
});

it('a response leaves the list when its connection closes', () => {
  const { responses, client } = waiting('*/*', false);
  expect(responses.size).toBe(1);
  client.emit('close');
  expect(responses.size).toBe(0);
});

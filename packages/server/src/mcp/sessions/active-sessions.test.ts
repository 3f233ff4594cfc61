import { randomBytes } from 'node:crypto';
import { TokenSealer } from '@sluice/protocol/seal';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { PendingServerRequest } from '../../upstreams/downstream.ts';
import { ActiveSessions } from './active-sessions.ts';
import { EventStore } from './event-store.ts';

let events: EventStore;
let sessions: ActiveSessions;
beforeEach(() => {
  events = new EventStore(new TokenSealer(randomBytes(32)), 'replica-a');
  sessions = new ActiveSessions(events, 'replica-a');
});
afterEach(() => events.close());

const owner = (id: string) => ({ id, holder: { namespace: 'n', name: 'u' } });

const serverRequest = (idText: string): PendingServerRequest => ({
  idText,
  onResponse: () => Promise.resolve(),
  onProgress: () => undefined,
  onAbandoned: () => undefined,
});

it('the id of a server request contains the replica that waits for the response, and is unique', () => {
  const [one, other] = [
    sessions.ensure(owner('a')).addServerRequest(serverRequest),
    sessions.ensure(owner('b')).addServerRequest(serverRequest),
  ];
  for (const { idText } of [one, other]) expect(JSON.parse(idText)).toMatch(/^replica-a\.\d+$/);
  expect(one.idText).not.toBe(other.idText);
  expect(sessions.find('b')?.serverRequest(one.idText)).toBeUndefined();
});

it('a session is active while it has an open resource', () => {
  const request = sessions.ensure(owner('a')).addServerRequest(serverRequest);
  expect(sessions.size).toBe(1);
  sessions.ensure(owner('a')).removeServerRequest(request);
  expect(sessions.size).toBe(0);
  const stream = sessions.ensure(owner('a')).openStream(() => undefined);
  expect(sessions.find('a')?.isListening).toBe(true);
  sessions.find('a')?.closeStream(stream);
  expect(sessions.size).toBe(0);
});

import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { accessTo } from '../access/fixtures/access.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import type { ResponseLike } from '../http/exchange.ts';
import { ANONYMOUS } from '../identity/principal.ts';
import { DEFAULT_NAMESPACE } from '../registry/entries.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { createLogger } from '../telemetry/log.ts';
import { NO_CLIENT } from '../upstreams/client-facts.ts';
import { ClientSink } from './client-sink.ts';
import { ListChangeNotifier } from './list-changes.ts';
import { ListenStream } from './listen-stream.ts';
import { OpenStreams } from './open-streams.ts';
import { ResponseWriter } from './response.ts';
import { SubscriptionQuota } from './sessions/subscription-quota.ts';

/** A client whose read speed the test controls. */
class Client extends EventEmitter implements ResponseLike {
  destroyed = false;
  writableEnded = false;
  headersSent = false;
  reads = true;
  readonly written: string[] = [];

  writeHead(): this {
    return this;
  }

  write(chunk: string | Buffer): boolean {
    this.written.push(String(chunk));
    return this.reads;
  }

  end(chunk?: string | Buffer): this {
    if (chunk !== undefined) this.written.push(String(chunk));
    this.writableEnded = true;
    return this;
  }

  cork(): void {}

  uncork(): void {}

  destroy(): this {
    this.destroyed = true;
    return this;
  }

  /** Methods of the list changes written since the last call. */
  take(): string[] {
    return this.written.splice(0).map((text) => /notifications\/[a-z/_]+|"result"/.exec(text)?.[0] ?? text);
  }
}

describe('a slow reader of a listen stream', () => {
  const openStreams = new OpenStreams();
  let client: Client;
  let stream: ListenStream;
  beforeEach(() => {
    vi.useFakeTimers();
    const registry = new Registry(memoryLog());
    const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward');
    const watcherOptions = {
      registry,
      upstreams: { of: () => undefined },
      access: accessTo(registry),
      log,
    };
    client = new Client();
    stream = new ListenStream(
      {
        listChanges: new ListChangeNotifier(registry),
        openStreams,
        subscriptions: new SubscriptionQuota(),
        watcherOptions,
      },
      {
        filter: { toolsListChanged: true, resourcesListChanged: true },
        client: { namespace: DEFAULT_NAMESPACE, principal: ANONYMOUS, clientInfo: {}, capabilities: {}, headers: [] },
        owner: { namespace: DEFAULT_NAMESPACE, name: 'u' },
      },
      new ClientSink(new ResponseWriter(client, [], '1'), { ...NO_CLIENT, idText: '1' }),
    );
    stream.start();
    expect(client.take()).toEqual(['notifications/subscriptions/acknowledged']);
    client.reads = false;
    stream.onChanged(new Set(['tool']));
    expect(client.take()).toEqual(['notifications/tools/list_changed']);
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('sends a repeated change once', () => {
    for (let at = 0; at < 1_000; at++) {
      stream.onChanged(new Set(['tool', 'prompt', 'resource']));
      expect(stream.onUpdated(`r://${at % 2}`, `{"params":{"uri":"r://${at % 2}","at":${at}}}`)).toBe(false);
    }
    expect(client.written).toEqual([]);
    client.emit('drain');
    // It reads one message at a time.
    expect(client.take()).toEqual(['notifications/tools/list_changed']);
    client.emit('drain');
    expect(client.take()).toEqual(['notifications/resources/list_changed']);
    client.reads = true;
    client.emit('drain');
    const updates = client.written.splice(0);
    expect(updates.map((text) => /"at":(\d+)/.exec(text)?.[1])).toEqual(['998', '999']);
    client.emit('drain');
    expect(client.written).toEqual([]);
    expect(stream.onUpdated('r://0', undefined)).toBe(true);
    expect(client.take()).toEqual(['notifications/resources/updated']);
  });

  it('sends everything when the stream ends, and releases its upstreams', () => {
    stream.onChanged(new Set(['resource']));
    expect(openStreams.size).toBeGreaterThan(0);
    stream.end();
    stream.end();
    expect(client.take()).toEqual(['notifications/resources/list_changed', '"result"']);
    stream.onChanged(new Set(['resource']));
    client.emit('drain');
    expect([client.written, client.writableEnded, client.destroyed]).toEqual([[], true, false]);
    // It still does not read.
    vi.advanceTimersByTime(10_000);
    expect(client.destroyed).toBe(true);
  });

  it('releases all resources', () => {
    const before = openStreams.size;
    client.emit('close');
    expect(openStreams.size).toBe(before - 1);
    stream.onChanged(new Set(['resource']));
    client.emit('drain');
    stream.end();
    expect(client.written).toEqual([]);
  });
});

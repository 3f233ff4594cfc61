import {
  type ClientCapabilities,
  capabilityKey,
  FULL_CAPABILITIES,
  NO_CAPABILITIES,
} from '@sluice/protocol/mcp/capabilities';
import { describe, expect, it, vi } from 'vitest';
import { ANONYMOUS } from '../identity/principal.ts';
import { CapabilityProfiles } from './capability-profiles.ts';

const CAUSE = { namespace: { name: 'default' }, principal: ANONYMOUS, head: {} };

/** Profiles with a controlled discovery and clock. */
function start(limits = { concurrent: 100, perMinute: 1_000 }) {
  const discover = vi.fn(() => Promise.resolve());
  const clock = { now: 0 };
  const profiles = new CapabilityProfiles(discover, limits, () => clock.now);
  const ensure = (capabilities: ClientCapabilities) =>
    profiles.ensureDiscovered(capabilityKey(capabilities), capabilities, CAUSE);
  return { profiles, discover, clock, ensure };
}

const numbered = (number: number): ClientCapabilities => ({ experimental: { [`x${number}`]: {} } });

describe('capability profiles', () => {
  it('start with the empty and the full set, for which no client waits', () => {
    const { profiles, discover, ensure } = start();
    expect([...profiles.capabilities()]).toEqual([NO_CAPABILITIES, FULL_CAPABILITIES]);
    expect(ensure({})).toBeUndefined();
    expect(ensure({ ...FULL_CAPABILITIES, roots: { listChanged: true } })).toBeUndefined();
    expect(discover).not.toHaveBeenCalled();
  });

  it('share one discovery among all clients that declare a new set', async () => {
    const { profiles, discover, ensure } = start();
    const run = Promise.withResolvers<void>();
    discover.mockReturnValue(run.promise);
    const first = ensure({ sampling: {} });
    expect(first).toBeInstanceOf(Promise);
    expect(ensure({ sampling: {} })).toBe(first);
    expect([...profiles.capabilities()]).toContainEqual({ sampling: {} });
    run.resolve();
    await first;
    expect(ensure({ sampling: {} })).toBeUndefined();
    expect(discover).toHaveBeenCalledTimes(1);
  });

  it('let no client wait longer than two seconds', async () => {
    vi.useFakeTimers();
    try {
      const { discover, ensure } = start();
      discover.mockReturnValue(new Promise(() => undefined));
      const waiting = ensure({ sampling: {} });
      await vi.advanceTimersByTimeAsync(2_000);
      await expect(waiting).resolves.toBeUndefined();
      expect(ensure({ sampling: {} })).toBeUndefined();
    } finally {
      vi.useRealTimers();
    }
  });

  it('evict the least recently declared set, never the first two', async () => {
    const { profiles, ensure } = start();
    for (let number = 0; number < 14; number++) await ensure(numbered(number));
    expect([...profiles.capabilities()]).toHaveLength(16);
    ensure(numbered(0));
    await ensure(numbered(14));
    const known = [...profiles.capabilities()];
    expect(known).toHaveLength(16);
    expect(known).toContainEqual(NO_CAPABILITIES);
    expect(known).toContainEqual(FULL_CAPABILITIES);
    expect(known).toContainEqual(numbered(0));
    expect(known).toContainEqual(numbered(14));
    expect(known).not.toContainEqual(numbered(1));
  });

  it('evict at most every ten seconds', async () => {
    const { discover, clock, ensure } = start();
    for (let number = 0; number < 15; number++) await ensure(numbered(number));
    expect(discover).toHaveBeenCalledTimes(15);
    clock.now = 9_999;
    expect(ensure(numbered(15))).toBeUndefined();
    expect(discover).toHaveBeenCalledTimes(15);
    clock.now = 10_000;
    await ensure(numbered(15));
    expect(discover).toHaveBeenCalledTimes(16);
  });

  it('restore sets from before a restart while there is room, and evict them first', async () => {
    const { profiles, discover, ensure } = start();
    for (let number = 0; number < 20; number++) profiles.restore(numbered(number));
    expect([...profiles.capabilities()]).toHaveLength(16);
    expect(ensure(numbered(0))).toBeUndefined();
    expect(discover).not.toHaveBeenCalled();
    await ensure({ sampling: {} });
    expect([...profiles.capabilities()]).toContainEqual(numbered(0));
    expect([...profiles.capabilities()]).not.toContainEqual(numbered(1));
  });

  it('do not store a set that is too long', () => {
    const { profiles, discover, ensure } = start();
    expect(ensure({ experimental: { ['x'.repeat(5000)]: {} } })).toBeUndefined();
    expect([...profiles.capabilities()]).toHaveLength(2);
    expect(discover).not.toHaveBeenCalled();
  });
});

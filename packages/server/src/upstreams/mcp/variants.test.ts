import {
  type ClientCapabilities,
  capabilityKey,
  FULL_CAPABILITIES,
  NO_CAPABILITIES,
} from '@sluice/protocol/mcp/capabilities';
import { describe, expect, it, vi } from 'vitest';
import { CapabilityProfiles } from './capability-variants.ts';

/** Variants whose discoveries end when told, on a clock that is set by hand. */
function start() {
  const discover = vi.fn(() => Promise.resolve());
  const clock = { now: 0 };
  const variants = new CapabilityProfiles(discover, () => clock.now);
  const admit = (capabilities: ClientCapabilities) => variants.admit(capabilityKey(capabilities), capabilities);
  return { variants, discover, clock, admit };
}

const numbered = (number: number): ClientCapabilities => ({ experimental: { [`x${number}`]: {} } });

describe('variants', () => {
  it('begin with no and with all capabilities, for which nobody waits', () => {
    const { variants, discover, admit } = start();
    expect([...variants.capabilities()]).toEqual([NO_CAPABILITIES, FULL_CAPABILITIES]);
    expect(admit({})).toBeUndefined();
    expect(admit({ ...FULL_CAPABILITIES, roots: { listChanged: true } })).toBeUndefined();
    expect(discover).not.toHaveBeenCalled();
  });

  it('let all who declare a new set meanwhile wait for the one run', async () => {
    const { variants, discover, admit } = start();
    const run = Promise.withResolvers<void>();
    discover.mockReturnValue(run.promise);
    const first = admit({ sampling: {} });
    expect(first).toBeInstanceOf(Promise);
    expect(admit({ sampling: {} })).toBe(first);
    expect([...variants.capabilities()]).toContainEqual({ sampling: {} });
    run.resolve();
    await first;
    expect(admit({ sampling: {} })).toBeUndefined();
    expect(discover).toHaveBeenCalledTimes(1);
  });

  it('let nobody wait for longer than two seconds', async () => {
    vi.useFakeTimers();
    try {
      const { discover, admit } = start();
      discover.mockReturnValue(new Promise(() => undefined));
      const waiting = admit({ sampling: {} });
      await vi.advanceTimersByTimeAsync(2_000);
      await expect(waiting).resolves.toBeUndefined();
      expect(admit({ sampling: {} })).toBeUndefined();
    } finally {
      vi.useRealTimers();
    }
  });

  it('give the place of the set that was not declared for longest to a new one, never that of the first two', async () => {
    const { variants, admit } = start();
    for (let number = 0; number < 14; number++) await admit(numbered(number));
    expect([...variants.capabilities()]).toHaveLength(16);
    admit(numbered(0));
    await admit(numbered(14));
    const known = [...variants.capabilities()];
    expect(known).toHaveLength(16);
    expect(known).toContainEqual(NO_CAPABILITIES);
    expect(known).toContainEqual(FULL_CAPABILITIES);
    expect(known).toContainEqual(numbered(0));
    expect(known).toContainEqual(numbered(14));
    expect(known).not.toContainEqual(numbered(1));
  });

  it('have the forwards asked anew only every ten seconds when there is no room', async () => {
    const { discover, clock, admit } = start();
    for (let number = 0; number < 15; number++) await admit(numbered(number));
    expect(discover).toHaveBeenCalledTimes(15);
    clock.now = 9_999;
    expect(admit(numbered(15))).toBeUndefined();
    expect(discover).toHaveBeenCalledTimes(15);
    clock.now = 10_000;
    await admit(numbered(15));
    expect(discover).toHaveBeenCalledTimes(16);
  });

  it('take in those of before a restart as long as there is room, to give way first', async () => {
    const { variants, discover, admit } = start();
    for (let number = 0; number < 20; number++) variants.restore(numbered(number));
    expect([...variants.capabilities()]).toHaveLength(16);
    expect(admit(numbered(0))).toBeUndefined();
    expect(discover).not.toHaveBeenCalled();
    await admit({ sampling: {} });
    expect([...variants.capabilities()]).toContainEqual(numbered(0));
    expect([...variants.capabilities()]).not.toContainEqual(numbered(1));
  });

  it('do not keep a set that is too long', () => {
    const { variants, discover, admit } = start();
    expect(admit({ experimental: { ['x'.repeat(5000)]: {} } })).toBeUndefined();
    expect([...variants.capabilities()]).toHaveLength(2);
    expect(discover).not.toHaveBeenCalled();
  });
});

import { setTimeout as delay } from 'node:timers/promises';

/**
 * Waits until every forward is available. `forwards` resolves to the list of the management API. Throws with what that says
 * about the others when it takes too long.
 */
export async function discovered(forwards: () => Promise<unknown>, timeoutMs = 60_000): Promise<void> {
  const late = AbortSignal.timeout(timeoutMs);
  for (;;) {
    const data = await forwards();
    const states: Record<string, unknown>[] = Array.isArray(data) ? data.map(Object) : [];
    const missing = states.filter(({ available }) => available !== true);
    if (states.length > 0 && missing.length === 0) return;
    if (late.aborted) {
      const reasons = missing.map(({ name, statusMessage }) => `${String(name)}: ${String(statusMessage)}`);
      throw new Error(`not discovered within ${timeoutMs} ms: ${reasons.join('; ')}`);
    }
    await delay(20);
  }
}

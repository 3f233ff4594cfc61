import { setTimeout as delay } from 'node:timers/promises';
import type { Gateway } from '../fixtures/gateway.ts';

/** Waits until every forward is available; throws with what the gateway says about the others when it takes too long. */
export async function discovered(gateway: Gateway, timeoutMs = 10_000): Promise<void> {
  const late = AbortSignal.timeout(timeoutMs);
  for (;;) {
    const { body } = await gateway.api('GET', '/api/v1/forwards');
    const { data }: Record<string, unknown> = Object(body);
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

import { listen } from '../client/listening.fixture.ts';
import { createHttp1Server } from './http1-server.ts';

/** Timeouts that no test reaches. */
export const NO_TIMEOUTS = { keepAliveMs: 75_000, headMs: 60_000, requestMs: 0, checkMs: 60_000 };

/** Starts a server on a free port of loopback until the test is over. */
export function startHttp1Server(serve: Parameters<typeof createHttp1Server>[1]): Promise<number> {
  return listen(createHttp1Server({ tls: undefined, connectStatus: 400, ...NO_TIMEOUTS }, serve));
}

import { logVerbosity, setLogger, setLogVerbosity } from '@grpc/grpc-js';

/**
 * Has the gRPC library write nothing of its own, for the whole process: it writes past our log, to standard error, and
 * names what it cannot take with its value, as in headers that a service has sent. What becomes of a call is told by us.
 */
export function silenceLibrary(): void {
  const nothing = (): void => {};
  setLogger({ error: nothing, info: nothing, debug: nothing });
  setLogVerbosity(logVerbosity.NONE);
}

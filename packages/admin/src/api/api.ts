import { type Client, createClient } from '@sluice/contract/client';
import { createContext, useContext } from 'react';
import { Connection } from './connection.ts';
import { EventStream } from './event-stream.ts';

/** Access to the service, shared by all pages. */
export interface Api {
  /** URL of the management listener, with the path that a proxy may add, without trailing slash. */
  readonly base: string;
  readonly client: Client;
  readonly connection: Connection;
  readonly events: EventStream;
}

/** The request had no response: the service is down, or the network is. */
export class ServiceUnreachableError extends Error {
  override readonly name = 'ServiceUnreachableError';

  constructor(cause: unknown) {
    super('The service does not respond. The console tries again by itself.', { cause });
  }
}

/** Reports what a response says about the connection. */
function report(connection: Connection, { type, status, headers, url }: Response): void {
  // A proxy redirects to its login page, or answers 401; so does the service once a sign-in has ended.
  if (type === 'opaqueredirect' || status === 401) connection.onLoginRequired();
  // Everybody gets who they are: whoever asks for it reports what it means.
  else if (status === 200 && url.endsWith('/api/v1/session')) return;
  else if (status < 500) connection.onHeard();
  // Errors of the service itself are JSON.
  else if (headers.get('content-type')?.startsWith('application/json')) connection.onFailed();
  else connection.onUnreachable();
}

/** Creates the access to the service whose management listener has the URL `base`. */
export function createApi(base: string): Api {
  const connection = new Connection();
  const client = createClient({
    host: base,
    async fetch(request) {
      try {
        const response = await fetch(request);
        report(connection, response);
        return response;
      } catch (error) {
        if (request.signal.aborted) throw error;
        connection.onUnreachable();
        throw new ServiceUnreachableError(error);
      }
    },
  });
  return { base, client, connection, events: new EventStream(`${base}/api/v1/events`, connection) };
}

/** Provides the {@link Api} to all components. */
export const ApiContext = createContext<Api | undefined>(undefined);

/** Returns the {@link Api}. */
export function useApi(): Api {
  const api = useContext(ApiContext);
  if (!api) throw new Error('useApi: no ApiContext');
  return api;
}

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { VERSION } from '../telemetry/version.ts';

/** The OpenAPI document in its formats. */
export interface DocumentTexts {
  readonly json: string;
  readonly yaml: string;
}

/**
 * Returns a function for the OpenAPI document of this API. A worker thread creates it for the first request: converting the schemas
 * takes 120 ms, and serializing it as YAML as long, which would block the event loop. The function rejects if no worker can be
 * started; the next call tries again.
 */
export function openApiTexts(): () => Promise<DocumentTexts> {
  let texts: Promise<DocumentTexts> | undefined;
  return () => {
    texts ??= createTexts().catch((error) => {
      texts = undefined;
      throw error;
    });
    return texts;
  };
}

async function createTexts(): Promise<DocumentTexts> {
  const worker = new Worker(new URL('./openapi-worker.ts', import.meta.url), {
    workerData: VERSION,
    argv: [],
    env: {},
    execArgv: [],
    // Output of the runtime must not appear in the log.
    stdout: true,
    stderr: true,
  });
  // It ends by itself after its message, and must not delay the end of the service.
  worker.unref();
  const [texts]: DocumentTexts[] = await once(worker, 'message');
  if (texts === undefined) throw new Error('the worker thread of the OpenAPI document sent nothing');
  return texts;
}

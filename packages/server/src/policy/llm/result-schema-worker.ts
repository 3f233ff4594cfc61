/** Entry point of the worker thread in which `result-schema.ts` compiles and validates. */

import { parentPort } from 'node:worker_threads';
import { SchemaWorkerHandler } from './result-schema-validator.ts';

const port = parentPort;
if (port === null) throw new Error('result-schema-worker.ts must be run as a worker thread');
const handler = new SchemaWorkerHandler();
port.on('message', (job) => port.postMessage(handler.handle(job)));
port.postMessage({ kind: 'ready' });

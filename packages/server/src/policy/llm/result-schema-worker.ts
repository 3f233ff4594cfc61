/**
 * The thread in which result schemas are compiled and used (see `schema-thread.ts`): whatever a regular expression of
 * theirs or an answer of an LLM takes, it takes here.
 */

import { parentPort } from 'node:worker_threads';
import { SchemaWorkerHandler } from './result-schema-validator.ts';

const port = parentPort;
if (port === null) throw new Error('result-schema-worker.ts is run as a worker thread only');
const desk = new SchemaWorkerHandler();
port.on('message', (job) => port.postMessage(desk.carryOut(job)));
port.postMessage({ kind: 'ready' });

/** Entry point of the worker thread that creates the OpenAPI document. */

import { parentPort, workerData } from 'node:worker_threads';
import { openApiDocument } from '@sluice/contract/openapi';
import { stringify } from 'yaml';
import type { DocumentTexts } from './openapi.ts';

const port = parentPort;
if (port === null) throw new Error('openapi-worker.ts must be run as a worker thread');
const json = JSON.stringify(openApiDocument(String(workerData)));
const texts: DocumentTexts = { json, yaml: stringify(JSON.parse(json), { strict: false }) };
port.postMessage(texts);

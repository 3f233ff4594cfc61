import * as functions from 'service:evaluator/log';
import { guardHostFunctions, requireString } from './host-calls.ts';

const host = guardHostFunctions('log', functions);

export function info(message: string): void {
  host.info(requireString(message, 'info', 'message'));
}

export function warn(message: string): void {
  host.warn(requireString(message, 'warn', 'message'));
}

export function error(message: string): void {
  host.error(requireString(message, 'error', 'message'));
}

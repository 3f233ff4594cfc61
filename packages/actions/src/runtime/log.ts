import * as functions from 'service:evaluator/log';
import { whenRunning } from './running.ts';
import { text } from './text.ts';

const host = whenRunning('log', functions);

export function info(message: string): void {
  host.info(text(message, 'info', 'message'));
}

export function warn(message: string): void {
  host.warn(text(message, 'warn', 'message'));
}

export function error(message: string): void {
  host.error(text(message, 'error', 'message'));
}

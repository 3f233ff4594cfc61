import * as functions from 'service:evaluator/response';
import { whenRunning } from './running.ts';
import { text, texts } from './text.ts';

const host = whenRunning('response', functions);

export function pass(): void {
  host.pass();
}

export function block(reason: string): void {
  host.block(text(reason, 'block', 'reason'));
}

export function rejectMalformed(reason: string): void {
  host.rejectMalformed(text(reason, 'rejectMalformed', 'reason'));
}

export function warn(message: string): void {
  host.warn(text(message, 'warn', 'message'));
}

export function filterTools(toolNames: readonly string[]): void {
  host.filterTools(texts(toolNames, 'filterTools', 'list of names'));
}

export function setMetadata(key: string, value: string): void {
  host.setMetadata(text(key, 'setMetadata', 'key'), text(value, 'setMetadata', 'value'));
}

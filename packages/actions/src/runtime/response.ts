import * as functions from 'service:evaluator/response';
import { guardHostFunctions, requireString, requireStrings } from './host-calls.ts';

const host = guardHostFunctions('response', functions);

export function pass(): void {
  host.pass();
}

export function block(reason: string): void {
  host.block(requireString(reason, 'block', 'reason'));
}

export function rejectMalformed(reason: string): void {
  host.rejectMalformed(requireString(reason, 'rejectMalformed', 'reason'));
}

export function warn(message: string): void {
  host.warn(requireString(message, 'warn', 'message'));
}

export function filterTools(toolNames: readonly string[]): void {
  host.filterTools(requireStrings(toolNames, 'filterTools', 'tool names'));
}

export function setMetadata(key: string, value: string): void {
  host.setMetadata(requireString(key, 'setMetadata', 'key'), requireString(value, 'setMetadata', 'value'));
}

import * as functions from 'service:evaluator/registry';
import type { ToolEntry } from 'service:evaluator/types';
import { whenRunning } from './running.ts';
import { text } from './text.ts';

const host = whenRunning('registry', functions);

export function listTools(): ToolEntry[] {
  return host.listTools().map(entry);
}

export function listToolsInNamespace(namespace: string): ToolEntry[] {
  return host.listToolsInNamespace(text(namespace, 'listToolsInNamespace', 'namespace')).map(entry);
}

export function getTool(name: string): ToolEntry | undefined {
  // One engine says null of what is not there, the other undefined.
  const tool = host.getTool(text(name, 'getTool', 'name')) ?? undefined;
  return tool && entry(tool);
}

export function copyToolToNamespace(toolName: string, targetNamespace: string): boolean {
  return host.copyToolToNamespace(
    text(toolName, 'copyToolToNamespace', 'name of the tool'),
    text(targetNamespace, 'copyToolToNamespace', 'namespace'),
  );
}

function entry(tool: ToolEntry): ToolEntry {
  return { ...tool, namespace: tool.namespace ?? undefined };
}

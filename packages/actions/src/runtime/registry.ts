import * as functions from 'service:evaluator/registry';
import type { ToolEntry } from 'service:evaluator/types';
import { guardHostFunctions, requireString } from './host-calls.ts';

const host = guardHostFunctions('registry', functions);

export function listTools(): ToolEntry[] {
  return host.listTools().map(entry);
}

export function listToolsInNamespace(namespace: string): ToolEntry[] {
  return host.listToolsInNamespace(requireString(namespace, 'listToolsInNamespace', 'namespace')).map(entry);
}

export function getTool(name: string): ToolEntry | undefined {
  // Engines differ in null and undefined for an absent option.
  const tool = host.getTool(requireString(name, 'getTool', 'name')) ?? undefined;
  return tool && entry(tool);
}

export function copyToolToNamespace(toolName: string, targetNamespace: string): boolean {
  return host.copyToolToNamespace(
    requireString(toolName, 'copyToolToNamespace', 'tool name'),
    requireString(targetNamespace, 'copyToolToNamespace', 'namespace'),
  );
}

function entry(tool: ToolEntry): ToolEntry {
  return { ...tool, namespace: tool.namespace ?? undefined };
}

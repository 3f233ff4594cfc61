import type { HostileCase } from './hostile-case.ts';
import { tableCases } from './table-cases.ts';
import { variants } from './variants.ts';

/** All cases, in the order of the report: those of the known attacks, and generated ones. */
export function hostileCases(seed: number): HostileCase[] {
  return [...tableCases(), ...variants(seed)];
}

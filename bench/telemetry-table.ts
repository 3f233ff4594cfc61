import { exportingAim, exportingLimit, offLimit } from './cases.ts';
import { bold, hundredths, range, table, tenths, whole } from './table.ts';
import type { Telemetry, TelemetryFigures } from './telemetry.ts';

const names: Readonly<Record<Telemetry, string>> = {
  off: 'off',
  exporting: 'exporting',
  absent: 'another source (off against it)',
};

/** The table of calls with telemetry and without; tells `missed` of limits that were missed. */
export function telemetryTable(figures: readonly TelemetryFigures[], missed: string[]): string {
  return table(
    [
      'telemetry',
      'CPU µs per call',
      'ratio',
      'aim',
      'limit',
      'per second',
      'calls whose spans arrived',
      'bytes per call',
    ],
    figures.map(({ telemetry, cpuPerCallUs, ratio, perSecond, arrived }) => {
      const limit = telemetry === 'absent' ? offLimit : exportingLimit;
      if (ratio !== undefined && ratio.median > limit) {
        const what =
          telemetry === 'absent' ? 'telemetry off against another source' : 'telemetry exporting against off';
        missed.push(`${what}: ${hundredths(ratio.median)} times the CPU time of a tools/call, limit ${limit}`);
      }
      return [
        names[telemetry],
        range(cpuPerCallUs, tenths),
        bold(range(ratio, hundredths), true),
        telemetry === 'exporting' ? exportingAim.toFixed(2) : '',
        ratio === undefined ? '' : limit.toFixed(2),
        whole(perSecond.median),
        arrived === undefined
          ? ''
          : `${(arrived.calls * 100).toFixed(1)} %, ${hundredths(arrived.spans)} spans per call`,
        arrived === undefined ? '' : whole(arrived.bytes),
      ];
    }),
  );
}

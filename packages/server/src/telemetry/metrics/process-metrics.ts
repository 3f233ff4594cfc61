import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import type { Metric } from './metric.ts';

/**
 * How this process is doing, asked when somebody wants to know: nothing of it is watched all the time, as the delay of the
 * event loop would have to be.
 */
export class ProcessMetrics {
  #before: EventLoopUtilization = performance.eventLoopUtilization();

  /** As it is now; the utilization of the event loop is that since the last time. */
  metrics(): Metric[] {
    const { user, system } = process.cpuUsage();
    const loop = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(loop, this.#before);
    this.#before = loop;
    return [
      {
        name: 'process.cpu.time',
        description: 'Processor time that the process has used',
        unit: 's',
        kind: 'counter',
        series: [
          { attributes: { 'cpu.mode': 'user' }, value: user / 1e6 },
          { attributes: { 'cpu.mode': 'system' }, value: system / 1e6 },
        ],
      },
      {
        name: 'process.memory.usage',
        description: 'Physical memory that the process has',
        unit: 'By',
        kind: 'level',
        series: [{ attributes: {}, value: process.memoryUsage.rss() }],
      },
      {
        name: 'process.uptime',
        description: 'Time since the process began',
        unit: 's',
        kind: 'gauge',
        series: [{ attributes: {}, value: process.uptime() }],
      },
      {
        name: 'v8js.memory.heap.used',
        description: 'Memory in use, by space of the heap',
        unit: 'By',
        kind: 'level',
        series: getHeapSpaceStatistics().map(({ space_name, space_used_size }) => ({
          attributes: { 'v8js.heap.space.name': space_name },
          value: space_used_size,
        })),
      },
      {
        name: 'nodejs.eventloop.time',
        description: 'Time that the event loop has spent, by what it was doing',
        unit: 's',
        kind: 'counter',
        series: [
          { attributes: { 'nodejs.eventloop.state': 'active' }, value: loop.active / 1e3 },
          { attributes: { 'nodejs.eventloop.state': 'idle' }, value: loop.idle / 1e3 },
        ],
      },
      {
        name: 'nodejs.eventloop.utilization',
        description: 'Share of the time in which the event loop was at work, since this was last asked',
        unit: '1',
        kind: 'gauge',
        series: [{ attributes: {}, value: utilization }],
      },
    ];
  }
}

import { LineChart, ScaleTypes } from '@carbon/charts-react';
import '@carbon/charts-react/styles.css';
import { useEffect, useMemo, useState } from 'react';
import { visibleText } from './inert-text.tsx';
import { useTheme } from './theme.ts';

/** A value of a group; gaps are left out. */
export interface ChartPoint {
  readonly group: string;
  readonly date: Date;
  readonly value: number;
}

const MIN_HEIGHT_REM = 16;
/** From here on, the lines show the values. */
const MANY_POINTS = 20;

/** Ticks are within an hour or some. Longer texts would reach into the plot beside. */
const CLOCK: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };

interface TimeChartProps {
  readonly title: string;
  readonly points: readonly ChartPoint[];
  /** Milliseconds since the epoch; by default those of the first and the last point. */
  readonly begin?: number;
  readonly end?: number;
}

/**
 * Values over time. Charts are large, so load the component that uses this when it is needed. They take long to draw, too: the
 * page is there before them.
 */
export function TimeChart(props: TimeChartProps) {
  const [isDrawn, setDrawn] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    // After the next frame.
    const frame = requestAnimationFrame(() => {
      timer = setTimeout(() => setDrawn(true));
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, []);
  const height = heightOf(props.points);
  return isDrawn ? <Chart {...props} height={height} /> : <div style={{ blockSize: height }} />;
}

/** Returns the height of a plot with its legend, which has two groups in a line. */
function heightOf(points: readonly ChartPoint[]): string {
  const groups = new Set(points.map(({ group }) => group)).size;
  return `${Math.max(MIN_HEIGHT_REM, 14 + 1.5 * Math.ceil(groups / 2))}rem`;
}

function Chart({ title, points, begin, end, height }: TimeChartProps & { readonly height: string }) {
  const theme = useTheme();
  const isSparse = points.length < MANY_POINTS;
  const isZero = points.every(({ value }) => value === 0);
  const data = useMemo(() => points.map((point) => ({ ...point, group: nameOf(point) })), [points]);
  const options = useMemo(
    () => ({
      title,
      theme: theme === 'dark' ? ('g100' as const) : ('white' as const),
      height,
      // A line of one point is invisible.
      points: { enabled: isSparse },
      toolbar: { enabled: false },
      timeScale: { addSpaceOnEdges: 0 },
      // The names of groups are what the plot is about.
      legend: { truncation: { threshold: 32, numCharacter: 30 } },
      axes: {
        bottom: {
          mapsTo: 'date',
          scaleType: ScaleTypes.TIME,
          // The date of the first label, which the library adds, would reach into the next one.
          ticks: { number: 3, formatter: (tick: number | Date) => new Date(tick).toLocaleTimeString(undefined, CLOCK) },
          ...(begin !== undefined && end !== undefined && { domain: [new Date(begin), new Date(end)] }),
        },
        left: {
          mapsTo: 'value',
          scaleType: ScaleTypes.LINEAR,
          ...(isZero ? { domain: [0, 1] } : { includeZero: true }),
        },
      },
    }),
    [title, theme, height, isZero, isSparse, begin, end],
  );
  return (
    <div ref={removeSkeletonClass}>
      <LineChart data={data} options={options} />
    </div>
  );
}

/**
 * The library interprets names as HTML and removes all tags, so names that contain some would look like others: brackets and
 * ampersands are replaced by similar characters.
 */
function nameOf({ group }: ChartPoint): string {
  return visibleText(group, 80).replaceAll('<', '‹').replaceAll('>', '›').replaceAll('&', '＆');
}

/**
 * Charts name all parts that they may have in their class, a skeleton among them. Elsewhere such a class means that a page is
 * still loading.
 */
function removeSkeletonClass(element: HTMLElement | null): (() => void) | undefined {
  if (!element) return undefined;
  const remove = (): void => {
    for (const part of element.querySelectorAll('.cds--cc--skeleton-lines'))
      part.classList.remove('cds--cc--skeleton-lines');
  };
  const observer = new MutationObserver(remove);
  observer.observe(element, { subtree: true, childList: true, attributes: true, attributeFilter: ['class'] });
  remove();
  return () => observer.disconnect();
}

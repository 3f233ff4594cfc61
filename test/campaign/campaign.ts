/** A long run that looks for what short tests do not meet. `npm run campaign` runs it and keeps its report. */
export interface Campaign {
  /** How it is called on the command line, and what its block in the report is known by. */
  readonly name: string;
  readonly title: string;
  /** Runs it; `print` shows progress. `rounds` replaces its own number of rounds. */
  readonly run: (print: (line: string) => void, rounds: number | undefined) => Promise<CampaignResult>;
}

/** What a campaign found. */
export interface CampaignResult {
  readonly passed: boolean;
  /** Markdown: what was done, what was measured, what failed. */
  readonly report: string;
}

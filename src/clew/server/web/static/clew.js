// Every page works without scripts; these make it quicker to read. Each module looks for what it belongs to.
import "./times.js";
import "./unfold.js";
import "./reading.js";
import "./keys.js";
import "./controls.js";
import "./actions.js";
import "./live.js";
import "./list.js";
import "./fresh.js";
import "./search.js";
import "./tips.js";
import "./capture.js";
